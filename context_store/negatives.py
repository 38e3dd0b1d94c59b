"""Negative results: what was tried or suspected and did not hold, found again before it is tried again."""

from __future__ import annotations

import builtins
import dataclasses
import hashlib
import re
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.canonical import content_hash
from context_store.code import diff_of_commit
from context_store.database import Database, any_of
from context_store.evidence import require_stored
from context_store.lexical import match_words
from context_store.models import InvestigationRow, NegativeRow, ProposalRow, SearchTextRow
from context_store.records import EffectSize, NegativeResult, SearchFilter, TextKind
from context_store.redaction import redact, redact_code, redact_fields, redact_json, redact_source
from context_store.search_filters import conditions_of
from contracts.errors import NotFound, UserInputError

_PROSE = ("claim", "intervention", "expected", "observed", "reason_class", "reason", "reopen_if", "scale", "data")
_LATER = ("scale", "data", "code_version", "expected_effect", "observed_effect", "diff_hash")


class Negatives:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, negative: NegativeResult) -> NegativeResult:
        """Idempotent by content, without secrets.

        Without a `diff_hash` of its own it has that of the commit its context names, or of the one commit or proposal
        among its evidence.

        Raises UserInputError without a reason, without evidence, with evidence that is not stored, or with an effect
        whose interval lacks an end or has its ends the wrong way round.
        """
        if not negative.evidence or not negative.reason.strip():
            raise UserInputError(
                "a negative result needs a reason and evidence for it",
                remedy="say why it failed and name the run, series or hunk that shows it (kind:id#slice)",
            )
        for effect in (negative.expected_effect, negative.observed_effect):
            _refuse_no_interval(effect)
        values = _values(negative)
        key = _content_key(values)
        values["at"] = negative.at or self._database.clock()
        with self._database.begin() as connection:
            require_stored(connection, negative.evidence)
            if negative.project_id is None and negative.investigation_id is not None:
                values["project_id"] = _project_of(connection, negative.investigation_id)
            values["diff_hash"] = negative.diff_hash or hash_of_diff(
                _diff_tried(connection, negative, values["project_id"])
            )
            statement = insert(NegativeRow).values(**values, content_key=key)
            connection.execute(statement.on_conflict_do_nothing(index_elements=["content_key"]))
            return _record(connection.execute(_NEGATIVE.where(NegativeRow.content_key == key)).one()._mapping)

    def get(self, negative_id: int) -> NegativeResult:
        """Raises NotFound."""
        with self._database.begin() as connection:
            row = connection.execute(_NEGATIVE.where(NegativeRow.id == negative_id)).one_or_none()
        if row is None:
            raise NotFound(f"no negative result {negative_id}", remedy="`lathe negatives search WORDS` lists them")
        return _record(row._mapping)

    def search(
        self, text: str, project_id: str | None = None, limit: int = 10
    ) -> builtins.list[tuple[NegativeResult, float]]:
        """By shared words over all fields; any word may match, more and rarer matches come first."""
        chosen = SearchFilter(kinds=(TextKind.NEGATIVE,), project_id=project_id)
        with self._database.begin() as connection:
            where = conditions_of(connection, chosen)
            scores = {match.id: match.score for match in match_words(connection, text.replace("\0", " "), where, limit)}
            key = SearchTextRow.source_key == sa.cast(NegativeRow.id, sa.Text)
            query = _NEGATIVE.add_columns(SearchTextRow.id.label("text_id")).join(SearchTextRow, key)
            query = query.where(SearchTextRow.id.in_(scores), SearchTextRow.kind == TextKind.NEGATIVE)
            found = [dict(row._mapping) for row in connection.execute(query)]
        scored = [(scores[row.pop("text_id")], row) for row in found]
        ordered = sorted(scored, key=lambda pair: (-pair[0], -pair[1]["id"]))
        return [(_record(row), score) for score, row in ordered]

    def list(self, investigation_id: str | None = None) -> builtins.list[NegativeResult]:
        """Oldest first."""
        query = _NEGATIVE.order_by(NegativeRow.id)
        if investigation_id is not None:
            query = query.where(NegativeRow.investigation_id == investigation_id)
        with self._database.begin() as connection:
            return [_record(row._mapping) for row in connection.execute(query)]

    def by_ids(self, ids: Sequence[int]) -> dict[int, NegativeResult]:
        """Those of them that are stored."""
        with self._database.begin() as connection:
            rows = connection.execute(_NEGATIVE.where(NegativeRow.id.in_(ids)))
            return {row.id: _record(row._mapping) for row in rows}

    def with_diff(self, diff_hash: str) -> builtins.list[NegativeResult]:
        """Those that tried the same diff, oldest first; none for ""."""
        return self.with_diffs([diff_hash]).get(diff_hash, [])

    def with_diffs(self, hashes: Collection[str]) -> dict[str, builtins.list[NegativeResult]]:
        """Those that tried one of these diffs, by its hash, oldest first."""
        query = _NEGATIVE.where(NegativeRow.diff_hash == any_of(list(hashes)), NegativeRow.diff_hash != "")
        found: dict[str, builtins.list[NegativeResult]] = {}
        with self._database.begin() as connection:
            for row in connection.execute(query.order_by(NegativeRow.id)):
                found.setdefault(row.diff_hash, []).append(_record(row._mapping))
        return found

    def supersede(self, negative_id: int, by: int) -> NegativeResult:
        """Note that `by` took its place; it stays readable. Raises NotFound, UserInputError for itself or a circle."""
        if negative_id == by:
            raise UserInputError(
                f"negative result {by} cannot take its own place", remedy="name the one that took its place"
            )
        if negative_id in self._successors(by):
            raise UserInputError(
                f"negative result {by} was itself superseded by {negative_id}",
                remedy="name the newest of them as the one that counts",
            )
        self.get(negative_id)
        with self._database.begin() as connection:
            update = sa.update(NegativeRow).where(NegativeRow.id == negative_id)
            connection.execute(update.values(superseded_by=by))
        return self.get(negative_id)

    def _successors(self, negative_id: int) -> builtins.list[int]:
        """It, what superseded it, and so on."""
        chain, current = [], self.get(negative_id)
        while True:
            chain.append(current.id)
            if current.superseded_by is None:
                return chain
            current = self.get(current.superseded_by)


def _refuse_no_interval(effect: EffectSize | None) -> None:
    if effect is None or (effect.lo is None and effect.hi is None):
        return
    if effect.lo is None or effect.hi is None or effect.lo > effect.hi:
        raise UserInputError(
            f"the effect on '{effect.what}' has no interval from {effect.lo} to {effect.hi}",
            remedy="give its lower and its upper end, or neither",
        )


def hash_of_diff(diff: str) -> str:
    """The same for the same change: added and removed lines by path, without line numbers, context and blanks.

    Secrets do not count, because stored code has none. "" for a text without any changed line.
    """
    changed: builtins.list[str] = []
    before = ""
    for line in redact_source(diff).splitlines():
        if line.startswith("--- "):
            before = line[4:].split("\t")[0].removeprefix("a/")
        elif line.startswith("+++ "):
            after = line[4:].split("\t")[0].removeprefix("b/")
            changed.append(f"path {before if after == '/dev/null' else after}")
        elif line.startswith(("+", "-")) and line[1:].strip():
            changed.append(line[0] + re.sub(r"\s+", " ", line[1:].strip()))
    if not any(line[0] in "+-" for line in changed):
        return ""
    return hashlib.sha256("\n".join(changed).encode()).hexdigest()


def _diff_tried(connection: sa.Connection, negative: NegativeResult, project_id: str | None) -> str:
    """The diff that it speaks of, "" for none or several."""
    named = {each.id for each in negative.evidence if each.kind == "commit"}
    commit = negative.context.get("commit") or (named.pop() if len(named) == 1 else None)
    if commit is not None:
        return diff_of_commit(connection, project_id, str(commit))
    proposals = {each.id for each in negative.evidence if each.kind == "proposal"}
    if len(proposals) != 1:
        return ""
    return connection.execute(sa.select(ProposalRow.diff).where(ProposalRow.id == proposals.pop())).scalar() or ""


_NEGATIVE = sa.select(*(column for column in NegativeRow.__table__.columns if column.key != "content_key"))


def _values(negative: NegativeResult) -> dict[str, Any]:
    """What is stored of it: without secrets, effects as JSON."""
    values = {f.name: getattr(negative, f.name) for f in dataclasses.fields(negative) if f.name != "id"}
    values |= {name: redact(values[name]) for name in _PROSE}
    values["code_version"] = redact_code(negative.code_version)
    values["context"] = redact_fields(negative.context)
    for name in ("expected_effect", "observed_effect"):
        values[name] = None if values[name] is None else redact_json(dataclasses.asdict(values[name]))
    return values


def _content_key(values: dict[str, Any]) -> str:
    """Of what it says. Fields that came later count only when they are filled, so that older keys stay."""
    said = {name: value for name, value in values.items() if name not in ("superseded_by", "at")}
    said = {name: value for name, value in said.items() if name not in _LATER or value}
    return content_hash(said | {"evidence": [str(reference) for reference in values["evidence"]]})


def _record(row: Any) -> NegativeResult:
    values = dict(row)
    for name in ("expected_effect", "observed_effect"):
        values[name] = None if values[name] is None else EffectSize(**values[name])
    return NegativeResult(**values)


def _project_of(connection: sa.Connection, investigation_id: str) -> str | None:
    query = sa.select(InvestigationRow.project_id)
    return connection.execute(query.where(InvestigationRow.id == investigation_id)).scalar()
