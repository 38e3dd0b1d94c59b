"""Negative results that are alike, and what stands against them. Both are shown, nothing is merged."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from context_store.database import Database, driver
from context_store.embedding import Embedder
from context_store.negatives import Negatives
from context_store.records import Contradiction, Duplicate, EffectSize, NegativeResult, SearchFilter, TextKind
from context_store.search import Search
from context_store.vocabulary import plain
from contracts.enums import Verdict
from contracts.evidence import EvidenceRef

_SIMILAR = 0.6  # cosine of what was tried; measured on 25 and 126 written ideas that repeat some of their own
_CANDIDATES = 30
_HELD = ("adopted", "kept", "keep", "accepted")
_WHICH = {"run", "onset", "incident", "id", "date", "suspect", "commit"}  # which case it was, not its circumstances
_NO_WORDS = _WHICH | {"base", "best_before", "code_version", "comparability_era", "experiment", "numbers"}


class Likeness:
    def __init__(self, database: Database, negatives: Negatives, search: Search, embedder: Embedder) -> None:
        self._database = database
        self._negatives = negatives
        self._search = search
        self._embedder = embedder

    def duplicates(self, negative: NegativeResult, limit: int = 5) -> list[Duplicate]:
        """Stored ones like it, the same change first, then by similarity; itself (by id) is left out.

        The same change: the same normalised diff, or the same words and numbers. Similar: claim, intervention and
        context together mean about the same; other numbers make them another experiment, and that is said.
        """
        by_id = {each.id: each for each in self._negatives.with_diff(negative.diff_hash)}
        same_diff = set(by_id)
        by_id |= self._candidates(negative)
        by_id.pop(negative.id, None)
        others = list(by_id.values())
        if not others:
            return []
        vectors = self._embedder.embed([_tried(negative), *map(_tried, others)])
        cosines = (vectors[1:] @ vectors[0]).tolist()
        found = [
            _duplicate(negative, each, float(cosine), same_diff=each.id in same_diff)
            for each, cosine in zip(others, cosines, strict=True)
        ]
        kept = [each for each in found if each.is_same or each.similarity >= _SIMILAR]
        return sorted(kept, key=lambda each: (not each.is_same, -each.similarity))[:limit]

    def contradictions(self, negative: NegativeResult) -> list[Contradiction]:
        """What says otherwise: a proven verdict on the change it excluded, a note that the idea was kept, or a measured
        effect whose interval lies wholly elsewhere."""
        return [*self._proven(negative), *self._kept(negative), *self._other_effects(negative)]

    def _candidates(self, negative: NegativeResult) -> dict[int, NegativeResult]:
        text = f"{negative.claim}\n{negative.intervention}"
        chosen = SearchFilter(kinds=(TextKind.NEGATIVE,))
        hits = self._search.find(text, chosen, _CANDIDATES)
        return self._negatives.by_ids([int(hit.reference.id) for hit in hits])

    def _proven(self, negative: NegativeResult) -> list[Contradiction]:
        """Verdicts of other cases that name the same suspect for the same kind of anomaly."""
        suspect = str(negative.context.get("suspect") or f"commit:{negative.context.get('commit', '')}")
        if negative.reason_class == "caused_anomaly" or suspect == "commit:":
            return []
        values = {"suspect": suspect, "proven": Verdict.PROVEN.value, "case": negative.investigation_id or ""}
        with self._database.begin() as connection:
            rows = driver(connection).execute(_PROVEN, values).fetchall()
        kind = negative.context.get("anomaly_kind")
        return [
            Contradiction(
                reference=EvidenceRef(kind="verdict", id=str(verdict_id)),
                statement=f"proven (scope {scope}) in case {case}: {statement}",
                differs=_differences(negative.context, {"anomaly_kind": found, "run": run}),
            )
            for verdict_id, scope, case, statement, run, kinds in rows
            for found in [kind if kind in kinds else kinds[0] if kinds else None]
        ]

    def _kept(self, negative: NegativeResult) -> list[Contradiction]:
        """Imported experiments and ideas that say of the same change that it was kept."""
        idea = negative.intervention
        found = []
        for outcome in _HELD:
            chosen = SearchFilter(
                kinds=(TextKind.NOTE, TextKind.CHANGE), project_id=negative.project_id, outcome=outcome
            )
            hits = self._search.find(idea, chosen, _CANDIDATES)
            titles = [hit.title.partition(": ")[2] or hit.title for hit in hits]
            vectors = self._embedder.embed([idea, *titles])
            for hit, title, cosine in zip(hits, titles, (vectors[1:] @ vectors[0]).tolist(), strict=True):
                if cosine >= _SIMILAR and _numbers(title) >= _numbers(idea):
                    found.append(Contradiction(reference=hit.reference, statement=f"{outcome}: {title}", differs=()))
        return found

    def _other_effects(self, negative: NegativeResult) -> list[Contradiction]:
        return [
            Contradiction(
                reference=EvidenceRef(kind="negative", id=str(other.negative.id)),
                statement=f"measured {_said(theirs)}, here {_said(ours)}: {other.negative.claim}",
                differs=_differences(_circumstances(negative), _circumstances(other.negative)),
            )
            for other in self.duplicates(negative, limit=_CANDIDATES)
            if (ours := negative.observed_effect) is not None
            and (theirs := other.negative.observed_effect) is not None
            and _exclude(ours, theirs)
        ]


def _duplicate(asked: NegativeResult, stored: NegativeResult, cosine: float, *, same_diff: bool) -> Duplicate:
    if same_diff:
        return Duplicate(negative=stored, is_same=True, similarity=cosine, why="the same change of the code")
    if [_words(asked.claim), _words(asked.intervention)] == [_words(stored.claim), _words(stored.intervention)]:
        return Duplicate(negative=stored, is_same=True, similarity=cosine, why="the same words and numbers")
    ours, theirs = (_numbers(f"{each.claim} {each.intervention}") for each in (asked, stored))
    other = f"; other numbers: {', '.join(sorted(theirs))}" if theirs and ours != theirs else ""
    return Duplicate(negative=stored, is_same=False, similarity=cosine, why=f"a similar idea{other}")


def _tried(negative: NegativeResult) -> str:
    """What was believed, what was done, and where; nothing twice.

    Which case it was, which code and what came out (`_NO_WORDS`) say nothing of the idea, but make all of one table
    alike: measured on 166 published ideas.
    """
    said = [negative.claim] if negative.intervention in negative.claim else [negative.claim, negative.intervention]
    where = {**negative.context, "scale": negative.scale, "data": negative.data}
    told = {name: value for name, value in where.items() if value != "" and name.partition(".")[0] not in _NO_WORDS}
    return plain(". ".join([*said, *(f"{name} {value}" for name, value in told.items())]))


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:\.\d+)?", text.lower())


def _numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text.lower()))


def _exclude(a: EffectSize, b: EffectSize) -> bool:
    """Whether the two intervals of the same quantity have no value in common; False where one has none."""
    if a.what != b.what or a.unit != b.unit or None in (a.lo, a.hi, b.lo, b.hi):
        return False
    assert a.lo is not None and a.hi is not None and b.lo is not None and b.hi is not None  # noqa: PT018
    return a.lo > b.hi or b.lo > a.hi


def _said(effect: EffectSize) -> str:
    interval = "" if effect.lo is None else f" ({effect.lo:g} to {effect.hi:g})"
    return f"{effect.what} {effect.value:+g}{interval} {effect.unit}".rstrip()


def _circumstances(negative: NegativeResult) -> dict[str, object]:
    known = {"scale": negative.scale, "data": negative.data, "code_version": negative.code_version}
    return {**negative.context, **{name: value for name, value in known.items() if value}}


def _differences(ours: Mapping[str, object], theirs: Mapping[str, object]) -> tuple[str, ...]:
    """`name: theirs, here ours`, for what both know and is not the same, besides which case it was."""
    shared: Sequence[str] = sorted((ours.keys() & theirs.keys()) - _WHICH)
    return tuple(f"{name}: {theirs[name]}, here {ours[name]}" for name in shared if ours[name] != theirs[name])


_PROVEN = """
    SELECT v.id, v.scope, v.investigation_id, v.statement, i.run_id, (
        SELECT coalesce(array_agg(a.kind), '{}') FROM investigation_anomaly m JOIN anomaly a ON a.id = m.anomaly_id
        WHERE m.investigation_id = i.id)
    FROM verdict v JOIN investigation i ON i.id = v.investigation_id
    WHERE v.verdict = %(proven)s AND %(suspect)s = ANY(v.suspect_keys) AND v.investigation_id <> %(case)s ORDER BY v.id
"""
