"""The last resort before "the store does not know": what is stored that is nearest to the question."""

from __future__ import annotations

from agents.chat.answer import Answer, from_rows, unknown
from agents.chat.places import ChatContext
from agents.chat.questions import Asked
from agents.chat.sources import Sources
from agents.tools import Row
from agents.tools.knowledge import (
    anomaly_row,
    case_row,
    diagnostic_row,
    negative_row,
    proposal_row,
    suspect_row,
    verdict_row,
)
from agents.tools.matching import best
from agents.tools.protocol import row
from context_store.records import Investigation
from context_store.records.search import Hit, SearchFilter, TextKind

_MAX_SHOWN = 5
_MAX_HITS = 8
_KINDS = (TextKind.INVESTIGATION, TextKind.NEGATIVE, TextKind.NOTE, TextKind.CHANGE, TextKind.HUNK)
_LEAST_SHARE = 0.2  # of the weight of the question's words that a row of the leading case has to hold
_NEAR = 0.55  # cosine of a text that is no part of that case
_NAMED = {TextKind.INVESTIGATION: "case", TextKind.NEGATIVE: "tried"}


class Nearest:
    def __init__(self, sources: Sources) -> None:
        self._from = sources

    def answer(self, asked: Asked, context: ChatContext) -> Answer:
        """Rows of the leading case that hold rare words of the question, and what search finds near it, best first.

        Only rows that speak of what the question names; unknown where there is none.
        """
        places = self._from.places
        nothing = "nothing stored is near this question"
        if places.is_general(asked):
            return unknown(nothing)
        near = best(asked.rest, self._of_leading_case(asked, context), _told, limit=_MAX_SHOWN, min_share=_LEAST_SHARE)
        hits = self._from.store.search.find(asked.text, self._where(asked, context), limit=_MAX_HITS)
        near += [_hit_row(each) for each in hits if (each.similarity or 0.0) >= _NEAR or each.by_words == 1]
        together = " ".join(map(_told, near))
        shown = [each for each in near if places.shares_a_rare_word(asked, _told(each))]
        if not shown or not places.is_told(asked, together):
            return unknown(nothing)
        return from_rows(
            [row(f"nearest that is stored: {_told(each)}", *each.evidence) for each in shown[:_MAX_SHOWN]], ""
        )

    def around(self, asked: Asked, context: ChatContext, found: Answer) -> str:
        """What an answer says, with the case that it is about."""
        cases = self._from.places.cases(asked, context)
        told = [self._from.places.case_text(case) for case in cases[:1]]
        suspects = [each.text for case in cases[:1] for each in self._of_case(case)]
        return " ".join([*(each.text for each in found.statements), *told, *suspects])

    def _where(self, asked: Asked, context: ChatContext) -> SearchFilter:
        run_id = asked.runs[0].partition("#")[0] if asked.runs else context.run_id or None
        return SearchFilter(kinds=_KINDS, run_id=run_id)

    def _of_leading_case(self, asked: Asked, context: ChatContext) -> list[Row]:
        cases = self._from.places.cases(asked, context)
        run_id = self._from.places.run(asked, context) if cases else None
        changes = (
            [*self._from.rows("timeline", run_id=run_id), *self._from.rows("commits", run_id=run_id)] if run_id else []
        )
        return [*(each for case in cases[:1] for each in self._of_case(case)), *changes]

    def _of_case(self, case: Investigation) -> list[Row]:
        store, known = self._from.store, self._from.store.knowledge
        return [
            case_row(case),
            *map(verdict_row, known.verdicts(case.id)),
            *map(suspect_row, known.suspects(case.id)),
            *map(negative_row, store.negatives.list(case.id)),
            *map(diagnostic_row, known.diagnostics(case.id)),
            *map(anomaly_row, known.anomalies(investigation_id=case.id)),
            *map(proposal_row, store.proposals.list(investigation_id=case.id)),
        ]


def _told(each: Row) -> str:
    return each.text


def _hit_row(each: Hit) -> Row:
    return row(f"{_NAMED.get(each.kind, str(each.kind))} {each.title}. {each.body}", each.reference)
