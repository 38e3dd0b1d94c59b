"""Environment and hardware of a run as facts by step: packages, driver, hosts, which rank ran where.

A segment's own environment holds from its start; later facts are kept as the effective fields `environment.NAME`, which
a training can also log itself. Names: `package.NAME`, `driver`, `host`, `rank.N.host`, `rank.N.device`, and any other.
A training whose ranks can exchange places says `host.place_N`, and who sits there in its field `parallel.places`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.changes import effective_changes
from context_store.database import Database
from context_store.lineage import load_lineage
from context_store.models import ConfigValueRow, SegmentRow
from context_store.redaction import redact_fields
from context_store.runs import with_short_keys
from context_store.timeline import add_events
from contracts.errors import NotFound, UserInputError
from contracts.events import Scalar

PREFIX = "environment."
_RANK = re.compile(r"^rank\.(\d+)\.(host|device)$")
_PLACE = re.compile(r"^host\.place_(\d+)$")
_PLACES = "parallel.places"  # the rank in each place, separated by commas; empty: each in its own
_PACKAGE = "package."
_PLAIN_PACKAGES = ("torch", "numpy", "jax", "transformers", "triton", "python")  # logged without `package.`


@dataclass(frozen=True, kw_only=True)
class RankPlace:
    """Where a rank ran; `device` "" when nobody said."""

    rank: int
    host: str
    device: str


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What was in force at a step. `ranks` by number: as logged; a lone `host` is that of rank 0, which says it."""

    segment: int
    facts: Mapping[str, Scalar]
    packages: Mapping[str, str]
    driver: str
    hosts: tuple[str, ...]
    ranks: tuple[RankPlace, ...]


@dataclass(frozen=True, kw_only=True)
class _Segment:
    run_id: str
    number: int
    environment: Mapping[str, Scalar]


class EnvironmentFacts:
    """`store.environment`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def at(self, run_id: str, step: int | None = None) -> Environment:
        """At a step of the run's canonical history (None: at its end). Raises NotFound."""
        with self._database.snapshot() as connection:
            segment = _segment(connection, run_id, step)
            facts = _facts(connection, segment, step)
            order = _ranks_by_place(connection, segment)
        return _environment(segment, facts, order)

    def record(self, run_id: str, step: int, facts: Mapping[str, Scalar], *, at: float = 0.0) -> int:
        """These facts hold from this step on; returns how many differ from before, each of which is a timeline event.

        Recording the same again changes nothing. Raises NotFound, UserInputError without facts.
        """
        if not facts:
            raise UserInputError("no facts to record", remedy="name at least one, for instance driver=550.54")
        clean = {f"{PREFIX}{key}": value for key, value in redact_fields(with_short_keys(facts)).items()}
        with self._database.begin() as connection:
            segment = _segment(connection, run_id, step)
            before = {f"{PREFIX}{key}": value for key, value in _facts(connection, segment, step).items()}
            unknown: dict[str, Scalar] = {key: None for key in clean if key not in before}
            now = at or self._database.clock()
            events = effective_changes(run_id, segment.number, step, before | unknown, clean, now)
            add_events(connection, events)
            rows = [
                {"run_id": run_id, "segment": segment.number, "source": "effective", "step": step, "key": k, "value": v}
                for k, v in clean.items()
            ]
            statement = insert(ConfigValueRow)
            keys = ["run_id", "segment", "source", "step", "key"]
            replace = {"value": statement.excluded.value}
            connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=replace), rows)
        return len(events)


def _segment(connection: sa.Connection, run_id: str, step: int | None) -> _Segment:
    """The newest one that counts at this step."""
    columns = (SegmentRow.run_id, SegmentRow.number, SegmentRow.environment, SegmentRow.start_step)
    query = sa.select(*columns).where(SegmentRow.run_id == run_id)
    lineage = load_lineage(connection, run_id)
    for row in connection.execute(query.order_by(SegmentRow.number.desc())):
        if step is None or (row.start_step <= step and lineage.counts(row.number, step)):
            return _Segment(run_id=run_id, number=row.number, environment=row.environment)
    raise NotFound(f"run '{run_id}' has not begun at that step", remedy="`lathe timeline RUN` shows its segments")


def _facts(connection: sa.Connection, segment: _Segment, step: int | None) -> dict[str, Scalar]:
    """The segment's own, and what was recorded since."""
    query = (
        sa.select(ConfigValueRow.key, ConfigValueRow.value)
        .where(ConfigValueRow.run_id == segment.run_id, ConfigValueRow.segment == segment.number)
        .where(ConfigValueRow.source == "effective", ConfigValueRow.key.startswith(PREFIX, autoescape=True))
        .order_by(ConfigValueRow.step)
    )
    if step is not None:
        query = query.where(ConfigValueRow.step <= step)
    later = {row.key.removeprefix(PREFIX): row.value for row in connection.execute(query)}
    return {**segment.environment, **later}


def _ranks_by_place(connection: sa.Connection, segment: _Segment) -> Mapping[int, int]:
    """Where the segment declares it; a place that it does not name has the rank of the same number."""
    query = sa.select(ConfigValueRow.value).where(
        ConfigValueRow.run_id == segment.run_id,
        ConfigValueRow.segment == segment.number,
        ConfigValueRow.source == "declared",
        ConfigValueRow.key == _PLACES,
    )
    declared = str(connection.execute(query).scalars().first() or "")
    if not re.fullmatch(r"\d+(,\d+)*", declared):
        return {}
    return {place: int(rank) for place, rank in enumerate(declared.split(","))}


def _environment(segment: _Segment, facts: Mapping[str, Scalar], rank_in: Mapping[int, int]) -> Environment:
    packages = {key.removeprefix(_PACKAGE): str(value) for key, value in facts.items() if key.startswith(_PACKAGE)}
    packages |= {key: str(facts[key]) for key in _PLAIN_PACKAGES if key in facts}
    ranks = _ranks(facts, rank_in)
    host = str(facts.get("host", ""))
    hosts = sorted({place.host for place in ranks} | ({host} if host else set()))
    return Environment(
        segment=segment.number,
        facts=dict(sorted(facts.items())),
        packages=dict(sorted(packages.items())),
        driver=str(facts.get("driver", "")),
        hosts=tuple(hosts),
        ranks=ranks,
    )


def _ranks(facts: Mapping[str, Scalar], rank_in: Mapping[int, int]) -> tuple[RankPlace, ...]:
    """What is said of a rank counts more than what is said of its place."""
    found: dict[int, dict[str, str]] = {}
    for key, value in facts.items():
        if match := _PLACE.match(key):
            place = int(match[1])
            found[rank_in.get(place, place)] = {"host": str(value)}
    for key, value in facts.items():
        if match := _RANK.match(key):
            found.setdefault(int(match[1]), {})[match[2]] = str(value)
    if not found and facts.get("host"):
        found = {0: {"host": str(facts["host"])}}
    return tuple(
        RankPlace(rank=rank, host=place.get("host", ""), device=place.get("device", ""))
        for rank, place in sorted(found.items())
    )
