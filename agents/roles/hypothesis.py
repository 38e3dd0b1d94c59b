"""Which suspect to examine first. By rules: the stored ranking. A model may only put what is there in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from urllib.parse import unquote

from agents import evidence
from agents.chat.answer import Statement
from agents.roles.grounding import rows_of_case
from agents.roles.opinion import Opinion
from agents.tools import Row
from context_store import Store
from context_store.records import Suspect


class Hypothesis:
    name = "hypothesis"
    order = (
        "Order the suspects by how likely each explains the anomaly, most likely first: one sentence a suspect, with "
        "the reason, citing the suspect and what the reason rests on. Leave out suspects you can say nothing about."
    )

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def look(self, case_id: str) -> Sequence[Row]:
        return rows_of_case(self._store, case_id, self._clock)

    def plain(self, case_id: str) -> Sequence[Statement]:
        return [_statement(each) for each in self._store.knowledge.suspects(case_id)]


def order_of(opinion: Opinion, case_id: str) -> tuple[str, ...]:
    """Keys of the suspects in the order in which the statements speak of them."""
    refs = [ref for each in opinion.statements for ref in each.evidence if ref.kind == "suspect"]
    own = [unquote(ref.id).partition("/") for ref in refs]
    return tuple(dict.fromkeys(key for owner, _, key in own if owner == case_id))


def _statement(each: Suspect) -> Statement:
    own = evidence.part_of_case("suspect", each.investigation_id, each.key)
    return Statement(text=f"{each.title}: {each.reason}", evidence=(own, *each.evidence))
