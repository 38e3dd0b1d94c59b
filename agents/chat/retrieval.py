"""Chat without a model: recognises the question, asks the same tools a model would, and cites what they cite.

A question is told by its form (forms). Where no form fits, or the store knows nothing of that kind, by its meaning
(meaning, prototypes); then what is stored that is nearest is shown (nearest).

It never guesses: what no row of the store says is answered with what is missing.

measured    values, configuration, places that depart
happened    changes, commits, comparisons, when
found_out   causes, what was ruled out or tried, fixes, proof, what is alike
standing    runs, decisions, the wish to look into something
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agents.chat.answer import Answer, unknown
from agents.chat.forms import Kind
from agents.chat.found_out import FoundOut
from agents.chat.happened import Happened
from agents.chat.meaning import Meaning
from agents.chat.measured import Measured
from agents.chat.nearest import Nearest
from agents.chat.places import ChatContext, Places
from agents.chat.questions import Asked, recognise
from agents.chat.sources import Method, Sources
from agents.chat.standing import Standing
from agents.llm.errors import ModelRefused, ModelUnavailable
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


_EXACT = frozenset({Kind.INVESTIGATE, Kind.COMMIT, Kind.COMPARE, Kind.DECISIONS})  # what they name is there or not
_OF_EVERYTHING = frozenset({Kind.STATUS, Kind.RUNS})  # they say something of any question
_NUM_STEPS = re.compile(r"\b(\d[\d,]*) (?:\w+ )?steps\b", re.IGNORECASE)
_MEASURED = frozenset({Kind.VALUE, Kind.TREND})  # nothing stands for a quantity that was not measured


class Retrieval:
    def __init__(self, store: Store, toolbox: Toolbox) -> None:
        self._store = store
        self._places = Places(store)
        sources = Sources(store=store, toolbox=toolbox, places=self._places)
        measured, happened = Measured(sources), Happened(sources)
        standing = Standing(sources, happened)
        found_out = FoundOut(sources, measured, happened)
        self._meaning = Meaning(store.embedder)
        self._nearest = Nearest(sources)
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
        try:
            return self._answer(question, context)
        except (ModelUnavailable, ModelRefused) as error:  # the store's embedder is a model elsewhere
            return unknown(f"no stored words fit, and {error.message} ({error.remedy})")

    def _answer(self, question: str, context: ChatContext) -> Answer:
        known_runs = self._places.run_ids()
        asked = recognise(question, known_runs)
        if asked.strangers:
            return unknown(f"there is no run '{asked.strangers[0]}'")
        answer = self._methods[asked.kind](asked, context)
        for other in _THEN.get(asked.kind, ()) if not answer.known else ():
            found = self._methods[other](asked, context)
            said = " ".join(each.text for each in found.statements)
            if found.known and not self._places.is_foreign(asked, said, asked.subject):
                return found
        if answer.known or asked.kind in _EXACT:
            return answer
        return self._by_meaning(asked, context, self._meaning.kinds(question, known_runs)) or answer

    def _by_meaning(self, asked: Asked, context: ChatContext, kinds: Sequence[Kind]) -> Answer | None:
        """The likeliest kinds in turn, about the leading case where the question names none; then what is nearest.

        None when the question is like none that can be answered, or nothing stored speaks of what it names.
        """
        if not kinds or self._is_out_of_range(asked, context):
            return None
        meant = replace(asked, leading=True)
        formed = [asked.kind] if asked.kind is not Kind.OTHER else []
        for kind in dict.fromkeys([*formed, *kinds]):
            if kind in _OF_EVERYTHING and not self._places.is_general(asked):
                continue
            if kind in _MEASURED and kind not in formed and formed:
                continue
            as_kind = replace(meant, kind=kind)
            found = self._methods[kind](as_kind, context)
            if found.known and self._places.is_told(as_kind, self._nearest.around(meant, context, found)):
                return found
        return self._nearest.answer(meant, context) if not _MEASURED & {asked.kind, kinds[0]} else None

    def _is_out_of_range(self, asked: Asked, context: ChatContext) -> bool:
        """True when the question names a place, or a step that the run never reached: nothing near stands for those."""
        run_id = self._places.run(asked, context)
        if asked.layers or asked.experts or run_id is None:
            return bool(asked.layers or asked.experts)
        steps = [*asked.steps, *(int(n.replace(",", "")) for n in _NUM_STEPS.findall(asked.text))]
        last = self._store.runs.get(run_id).last_step
        return bool(steps) and 0 < last < max(steps)
