"""Chat without a model: recognises the question, asks the same tools a model would, and cites what they cite.

It never guesses: what no row of the store says is answered with what is missing.

measured    values, configuration, places that depart
happened    changes, commits, comparisons, when
found_out   causes, what was ruled out or tried, fixes, proof, what is alike
standing    runs, decisions, the wish to look into something
"""

from __future__ import annotations

from collections.abc import Mapping

from agents.chat.answer import Answer, unknown
from agents.chat.forms import Kind
from agents.chat.found_out import FoundOut
from agents.chat.happened import Happened
from agents.chat.measured import Measured
from agents.chat.places import ChatContext, Places
from agents.chat.questions import recognise
from agents.chat.sources import Method, Sources
from agents.chat.standing import Standing
from agents.tools import Toolbox
from context_store import Store

_THEN: Mapping[Kind, tuple[Kind, ...]] = {
    Kind.TREND: (Kind.DEPARTS, Kind.FIX, Kind.OTHER),
    Kind.DEPARTS: (Kind.VALUE,),
    Kind.STATUS: (Kind.OTHER,),
    Kind.TRIED: (Kind.WHY_NOT,),
    Kind.WHY_NOT: (Kind.WHY,),
    Kind.SIMILAR: (Kind.WHY,),
}  # what else a question may have been, when the store knows nothing of that kind


class Retrieval:
    def __init__(self, store: Store, toolbox: Toolbox) -> None:
        self._places = Places(store)
        sources = Sources(store=store, toolbox=toolbox, places=self._places)
        measured, happened = Measured(sources), Happened(sources)
        standing = Standing(sources, happened)
        found_out = FoundOut(sources, measured, happened)
        self._methods: dict[Kind, Method] = {
            Kind.INVESTIGATE: standing.investigate,
            Kind.COMMIT: happened.commit,
            Kind.COMPARE: happened.compare,
            Kind.DECISIONS: standing.decisions,
            Kind.PROOF: found_out.proof,
            Kind.TREND: measured.trend,
            Kind.TRIED: found_out.tried,
            Kind.WHY_NOT: found_out.why_not,
            Kind.FIX: found_out.fix,
            Kind.HISTORY: happened.history,
            Kind.SYMPTOM: found_out.symptom,
            Kind.DEPARTS: measured.departs,
            Kind.CHANGED: happened.changed,
            Kind.SIMILAR: found_out.similar,
            Kind.WHEN: happened.when,
            Kind.WHY: found_out.why,
            Kind.RUNS: standing.runs,
            Kind.STATUS: standing.status,
            Kind.VALUE: measured.value,
            Kind.OTHER: found_out.other,
        }

    def answer(self, question: str, context: ChatContext) -> Answer:
        """Raises NotFound when the context names what is not there."""
        asked = recognise(question, self._places.run_ids())
        if asked.strangers:
            return unknown(f"there is no run '{asked.strangers[0]}'")
        answer = self._methods[asked.kind](asked, context)
        for other in _THEN.get(asked.kind, ()) if not answer.known else ():
            found = self._methods[other](asked, context)
            said = " ".join(each.text for each in found.statements)
            if found.known and not self._places.is_foreign(asked, said, asked.subject):
                return found
        return answer
