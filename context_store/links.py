"""What a hunk bears on: the configuration fields it reads, and the statistics that those fields and its names move.

Kept in the store, so that they can be inspected and searched. Which words go with which statistics is the caller's
knowledge (`Topic`); statistics are families of series, with `*` for numbers: `max_vio/layers.*`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store import git_log
from context_store.database import Database, any_of, driver
from context_store.field_reads import FieldNames, split_words
from context_store.models import ConfigValueRow, FieldStatisticRow, HunkFieldRow, HunkRow, HunkStatisticRow, RunRow
from context_store.symbols import Definition, definitions
from contracts.errors import UserInputError

_NUMBER = re.compile(r"(?<=\.)\d+(?=$|[./@])|(?<==)\d+$")
_ROWS_A_TIME = 5000


class Topic(Protocol):
    """Words of code and fields, and patterns of the series that they bear on."""

    @property
    def name(self) -> str: ...
    @property
    def words(self) -> frozenset[str]: ...
    @property
    def statistics(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, kw_only=True)
class HunkLink:
    """`field` "": the statistic follows from the hunk's own names. `statistic` "": the field moves none we know.

    `how` says in words by what it was linked.
    """

    commit: str
    path: str
    new_start: int
    new_lines: int
    field: str
    statistic: str
    how: str


class Links:
    """`store.links`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def link(
        self, project_id: str, repository: Path, topics: Sequence[Topic], commits: Collection[str] | None = None
    ) -> int:
        """Link stored hunks of a project (None: of all commits) anew, with the fields and series its runs have.

        Returns their number. Raises RepositoryError for a repository that cannot be read.
        """
        git_log.check_repository(repository)
        with self._database.begin() as connection:
            fields = list(connection.execute(_fields(project_id)).scalars())
            families = sorted({family(name) for name in connection.execute(_NAMES, {"project": project_id}).scalars()})
            hunks = connection.execute(_of(HunkRow, project_id, commits, sa.select(HunkRow.__table__))).all()
        bearing = _Bearing(topics, families)
        names = FieldNames(fields)
        sources = _sources(repository, hunks)
        reads, moves = [], []
        for hunk in hunks:
            key = {"project_id": project_id, "commit": hunk.commit, "ordinal": hunk.ordinal}
            reads += [key | row for row in _read_fields(hunk, names, sources)]
            own = [hunk.path, *hunk.symbols]
            moves += [key | {"statistic": name, "how": how} for name, how in bearing.of(own).items()]
        by_field = [
            {"project_id": project_id, "field": field, "statistic": name, "how": how}
            for field in fields
            for name, how in bearing.of([field]).items()
        ]
        self._replace(project_id, commits, {HunkFieldRow: reads, HunkStatisticRow: moves, FieldStatisticRow: by_field})
        return len(hunks)

    def about(
        self, project_id: str, *, commit: str | None = None, series: str | None = None, field: str | None = None
    ) -> list[HunkLink]:
        """The links of one of the three. Raises UserInputError for none or several."""
        if sum(each is not None for each in (commit, series, field)) != 1:
            raise UserInputError("links of what?", remedy="name one commit, one series or one field")
        if commit is not None:
            return self.of_commit(project_id, commit)
        return self.bearing_on(project_id, series) if series is not None else self.reading(project_id, field or "")

    def of_commit(self, project_id: str, commit: str) -> list[HunkLink]:
        """Everything the hunks of a commit bear on, in the order of the diff."""
        return self._links("l.project_id = %(project)s AND l.commit = %(commit)s", project=project_id, commit=commit)

    def bearing_on(self, project_id: str, series: str, commits: Collection[str] | None = None) -> list[HunkLink]:
        """Hunks that bear on a series (of these commits), with the field through which they do."""
        where = "l.project_id = %(project)s AND l.statistic = %(statistic)s"
        chosen = None if commits is None else list(commits)
        where += " AND (%(commits)s::text[] IS NULL OR l.commit = ANY(%(commits)s))"
        return self._links(where, project=project_id, statistic=family(series), commits=chosen)

    def reading(self, project_id: str, field: str) -> list[HunkLink]:
        """Hunks that read a field."""
        return self._links("l.project_id = %(project)s AND l.field = %(field)s", project=project_id, field=field)

    def joined(self, project_id: str, run_id: str, commits: Collection[str]) -> dict[str, list[HunkLink]]:
        """For one diagnosis: each series of a run that some hunk of these commits bears on -> those hunks.

        Links are shared between the series of one family.
        """
        where = "l.project_id = %(project)s AND l.commit = ANY(%(commits)s) AND l.statistic <> ''"
        by_family: dict[str, list[HunkLink]] = {}
        for link in self._links(where, project=project_id, commits=list(commits)):
            by_family.setdefault(link.statistic, []).append(link)
        with self._database.begin() as connection:
            rows = driver(connection).execute("SELECT name FROM series WHERE run_id = %s ORDER BY name", [run_id])
            names = [row[0] for row in rows]
        return {name: by_family[group] for name in names if (group := family(name)) in by_family}

    def _links(self, where: str, **values: Any) -> list[HunkLink]:
        query = f"{_LINKS} WHERE {where} ORDER BY c.ordinal, l.ordinal, l.field, l.statistic"
        with self._database.begin() as connection:
            rows = driver(connection).execute(query, values).fetchall()
        return [
            HunkLink(commit=c, path=path, new_start=start, new_lines=lines, field=field, statistic=name, how=how)
            for _, c, path, start, lines, field, name, how in rows
        ]

    def _replace(
        self, project_id: str, commits: Collection[str] | None, rows: Mapping[Any, list[dict[str, Any]]]
    ) -> None:
        with self._database.begin() as connection:
            lock = sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(f"code:{project_id}", 0))
            connection.execute(sa.select(lock))
            for table, values in rows.items():
                of_commits = None if table is FieldStatisticRow else commits
                connection.execute(_of(table, project_id, of_commits, sa.delete(table)))
                for start in range(0, len(values), _ROWS_A_TIME):
                    connection.execute(insert(table).on_conflict_do_nothing(), values[start : start + _ROWS_A_TIME])


def _of(table: Any, project_id: str, commits: Collection[str] | None, statement: Any) -> Any:
    """The statement, for rows of the project and (None: of all) these commits."""
    mine = statement.where(table.project_id == project_id)
    return mine if commits is None else mine.where(table.commit == any_of(list(commits)))


def family(series: str) -> str:
    """Series that differ only in layer, expert or rank: `max_vio/layers.15` is of `max_vio/layers.*`."""
    return _NUMBER.sub("*", series)


class _Bearing:
    """Topics, with the families their patterns match looked up once."""

    def __init__(self, topics: Sequence[Topic], families: Sequence[str]) -> None:
        self._topics = topics
        self._families = {
            topic.name: [name for name in families if any(re.search(p, name) for p in topic.statistics)]
            for topic in topics
        }

    def of(self, names: Sequence[str]) -> dict[str, str]:
        """Family -> the topic and word by which these names bear on it."""
        words = {word for name in names for word in _words_of(name)}
        found: dict[str, str] = {}
        for topic in self._topics:
            shared = sorted(topic.words & words)
            for name in self._families[topic.name] if shared else ():
                found.setdefault(name, f"{topic.name}: {shared[0]}")
        return found


def _words_of(name: str) -> Iterator[str]:
    """The parts of a dotted or slashed name, and their words."""
    yield from (part.lower() for part in re.split(r"[./]", name))
    yield from split_words([name])


def _read_fields(hunk: Any, names: FieldNames, sources: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """First what the changed lines read, then what the definitions around them read."""
    around = [hunk.path, *hunk.symbols]
    lines = "\n".join(line[1:] for line in hunk.text.splitlines() if line[:1] in "+-")
    changed = names.read_by(lines, around)
    yield from ({"field": field, "how": f"a changed line reads {chain}"} for field, chain in changed.items())
    source = sources.get(_source(hunk), "")
    for definition in definitions(source) if source else ():
        if definition.name in hunk.symbols:
            within = names.read_by(_text(source, definition), around)
            for field, chain in within.items():
                if field not in changed:
                    changed[field] = chain
                    yield {"field": field, "how": f"{definition.name} reads {chain}"}


def _source(hunk: Any) -> str:
    return f"{hunk.commit.removeprefix(git_log.WORKTREE)}:{hunk.path}"


def _sources(repository: Path, hunks: Sequence[Any]) -> dict[str, str]:
    """Python files that hunks touch, by `commit:path`. (A working tree that was never committed has none.)"""
    return git_log.read_files(repository, sorted({_source(hunk) for hunk in hunks if hunk.symbols}))


def _text(source: str, definition: Definition) -> str:
    return "\n".join(source.splitlines()[definition.first - 1 : definition.last])


def _fields(project_id: str) -> sa.Select[str]:
    runs = sa.select(RunRow.id).where(RunRow.project_id == project_id)
    query = sa.select(ConfigValueRow.key).where(ConfigValueRow.run_id.in_(runs))
    return query.where(ConfigValueRow.source.in_(("declared", "effective"))).distinct().order_by(ConfigValueRow.key)


_NAMES = sa.text("SELECT DISTINCT s.name FROM series s JOIN run r ON r.id = s.run_id WHERE r.project_id = :project")
_LINKS = """
    SELECT c.ordinal, l.commit, h.path, h.new_start, h.new_lines, l.field, l.statistic, l.how FROM (
        SELECT f.project_id, f.commit, f.ordinal, f.field, coalesce(s.statistic, '') AS statistic,
            f.how || coalesce('; ' || s.how, '') AS how
        FROM hunk_field f LEFT JOIN field_statistic s ON s.project_id = f.project_id AND s.field = f.field
        UNION ALL
        SELECT s.project_id, s.commit, s.ordinal, '', s.statistic, s.how FROM hunk_statistic s
    ) AS l
    JOIN hunk h ON h.project_id = l.project_id AND h.commit = l.commit AND h.ordinal = l.ordinal
    JOIN code_commit c ON c.project_id = l.project_id AND c.hash = l.commit
"""
