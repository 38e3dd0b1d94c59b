"""What a person, or the hypothesis role, tells a running loop: entries of the ledger that it reads before each step.

Only a person's own words become orders (`agents.chat.instructions`); no tool of a model writes them. A model may
suggest an order of suspects, which every word of a person overrides. Both decide what is examined when, and a person
whether to go on: what is proven is still decided by re-runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from agents import evidence
from context_store import Store
from context_store.records import LedgerEntry

_ACTION, _SUGGEST = "guide", "suggest_order"
_MAX_ENTRIES = 5000  # of one case


class Word(StrEnum):
    """What may be said."""

    FIRST = "first"  # examine this suspect before all others
    EXCLUDE = "exclude"  # examine it after all others
    INCLUDE = "include"  # take both of these back
    STOP = "stop"  # conclude with what is known
    GO_ON = "go_on"  # take that back


@dataclass(frozen=True, kw_only=True)
class Guidance:
    """What holds after a number of instructions. `first`: the newest wish leads. `stopped_by`: "" or who said so.

    `suggested`: the order a model would take; what it does not name keeps its place behind.
    """

    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    stopped_by: str = ""
    suggested: tuple[str, ...] = ()

    def place(self, suspect: str) -> tuple[int, int]:
        """Sort key of a suspect among those that keep their order otherwise."""
        if suspect in self.first:
            return 0, self.first.index(suspect)
        behind = len(self.suggested)
        place = self.suggested.index(suspect) if suspect in self.suggested else behind
        return (2 if suspect in self.last else 1), place


def give(store: Store, case_id: str, word: Word, suspect: str, *, actor: str, at: float) -> LedgerEntry:
    """Tell the loop of a case. `suspect`: its key; "" for words without one. Raises NotFound without the case."""
    store.knowledge.investigation(case_id)
    subject = evidence.case(case_id)
    refs = (evidence.part_of_case("suspect", case_id, suspect),) if suspect else ()
    detail = {"word": word.value, "suspect": suspect}
    entry = store.ledger.append(actor, _ACTION, str(subject), detail, refs, at)
    text = f"{actor}: {word.value.replace('_', ' ')} {suspect}".rstrip()
    store.activity.publish("progress", text, investigation_id=case_id, detail=detail)
    return entry


def suggest(
    store: Store, case_id: str, order: Sequence[str], *, opinion: Mapping[str, Any], actor: str, at: float
) -> LedgerEntry:
    """An order of suspects with the opinion it comes from, in which every reason is cited."""
    detail = {"order": list(order), "opinion": dict(opinion)}
    refs = [evidence.part_of_case("suspect", case_id, key) for key in order]
    return store.ledger.append(actor, _SUGGEST, str(evidence.case(case_id)), detail, refs, at)


def suggestions(store: Store, case_id: str) -> list[LedgerEntry]:
    """Newest first."""
    return [entry for entry in entries(store, case_id) if entry.action == _SUGGEST]


def entries(store: Store, case_id: str) -> list[LedgerEntry]:
    """The ledger of a case, newest first."""
    return store.ledger.list(subject=str(evidence.case(case_id)), limit=_MAX_ENTRIES)


def is_guidance(entry: LedgerEntry) -> bool:
    """An order of a person, or a suggestion."""
    return entry.action in (_ACTION, _SUGGEST)


def sum_up(given: Iterable[LedgerEntry]) -> Guidance:
    """What holds after entries of guidance, oldest first."""
    guidance = Guidance()
    for entry in given:
        if entry.action == _SUGGEST:
            guidance = replace(guidance, suggested=tuple(entry.detail["order"]))
        else:
            guidance = _after(guidance, Word(entry.detail["word"]), str(entry.detail["suspect"]), entry.actor)
    return guidance


def sum_up_of(store: Store, case_id: str) -> Guidance:
    """What holds in a case now."""
    return sum_up(entry for entry in reversed(entries(store, case_id)) if is_guidance(entry))


def _after(before: Guidance, word: Word, suspect: str, actor: str) -> Guidance:
    if word in (Word.STOP, Word.GO_ON):
        return replace(before, stopped_by=actor if word is Word.STOP else "")
    first = tuple(each for each in before.first if each != suspect)
    last = tuple(each for each in before.last if each != suspect)
    return replace(
        before,
        first=(suspect, *first) if word is Word.FIRST else first,
        last=(*last, suspect) if word is Word.EXCLUDE else last,
    )
