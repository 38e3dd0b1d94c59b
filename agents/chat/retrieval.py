"""Chat without a model: recognises the question, asks the same tools a model would, and cites what they cite.

A question is told by its form (forms). What names runs, steps, series or commits is read by rules; what was found out
is answered with the passages that weigh most (passages, weighing), and what the rules found stands beside them.

It never guesses: what no row of the store says is answered with what is missing.

measured    values, configuration, places that depart
happened    changes, commits, comparisons, when
found_out   causes, what was ruled out or tried, fixes, proof, what is alike
standing    runs, decisions, the wish to look into something
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from agents.chat.answer import RULES, Answer, Statement, statements_of, unknown
from agents.chat.answerable import Answerable
from agents.chat.deciding import ordered
from agents.chat.following import in_full, with_steps
from agents.chat.forms import Kind
from agents.chat.found_out import FoundOut
from agents.chat.happened import Happened
from agents.chat.meaning import Meaning
from agents.chat.measured import Measured
from agents.chat.passages import Passages
from agents.chat.places import ChatContext, Places, is_at, telling
from agents.chat.questions import Asked, recognise
from agents.chat.reading import Slot
from agents.chat.sources import Method, Sources
from agents.chat.standing import Standing
from agents.chat.threads import Exchange, Threads
from agents.chat.weighing import Weighed, Weighing
from agents.chat.weights import RULES_FIRST
from agents.llm.errors import ModelRefused, ModelUnavailable
from agents.skills import SkillBook, skills_for
from agents.tools import Toolbox
from context_store import Store

_EXACT = frozenset({Kind.INVESTIGATE, Kind.COMMIT})  # what they name is there or not
_BY_RULES = frozenset(
    {
        Kind.VALUE,
        Kind.TREND,
        Kind.DEPARTS,
        Kind.CHANGED,
        Kind.WHEN,
        Kind.HISTORY,
        Kind.RUNS,
        Kind.STATUS,
        Kind.COMPARE,
        Kind.SYMPTOM,
        Kind.PROOF,
    }
)  # with names and numbers, which rules read better than nearness does
_OF_ANOMALIES = frozenset({Kind.WHEN, Kind.WHY, Kind.TREND, Kind.DEPARTS, Kind.CHANGED})
_MEASURED = frozenset({Kind.VALUE})  # nothing stands for a quantity that was not measured
_HOW_MANY = r"\bhow many\b"
_OF_COMMITS = r"\b(?:who|whose|commits?|author)\b"
_NUM_STEPS = re.compile(r"\b(\d[\d,]*) (?:\w+ )?steps\b", re.IGNORECASE)
_MAX_READ = 15
_MAX_SHOWN, _MAX_BESIDE, _MAX_MEASURED = 6, 8, 2


class Retrieval:
    def __init__(self, store: Store, toolbox: Toolbox, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._places = Places(store)
        skills = SkillBook(store, toolbox, skills_for(toolbox), actor=RULES, clock=clock)
        sources = Sources(store=store, toolbox=toolbox, skills=skills, places=self._places)
        measured, happened = Measured(sources), Happened(sources)
        self._measured = measured
        standing = Standing(sources, happened)
        found_out = FoundOut(sources, measured, happened)
        self._found_out = found_out
        self._passages = Passages(sources)
        self._answerable = Answerable(store.embedder)
        self._weighing = Weighing(store.embedder, Meaning(store.embedder))
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
        question, context = in_full(question, context, self._before(context), known_runs)
        asked = recognise(question, known_runs)
        if asked.strangers:
            return unknown(f"there is no run '{asked.strangers[0]}'")
        run_id = None if asked.steps else self._places.run(asked, context)
        spelled, gap = with_steps(question, run_id, self._store)
        if gap:
            return unknown(gap)
        return self._of(recognise(spelled, known_runs), context, known_runs)

    def _before(self, context: ChatContext) -> tuple[Exchange, ...]:
        return Threads(self._store).exchanges(context.thread_id) if context.thread_id else ()

    def _of(self, asked: Asked, context: ChatContext, known_runs: Sequence[str]) -> Answer:
        if (several := self._found_out.of_a_cause(asked)) is not None and not (asked.runs or context.run_id):
            return several
        if (of_a_loop := self._found_out.of_a_loop(asked, context)) is not None:
            return of_a_loop
        by_rules = self._by_rules(asked, context)
        if asked.kind not in _EXACT and self._is_out_of_range(asked, context):
            return unknown("the run has no such step, layer or expert") if by_rules.known else by_rules
        if asked.kind in _EXACT or (asked.kind is Kind.HISTORY and by_rules.known):
            return by_rules
        if not by_rules.known and self._names_what_is_well(asked, context):
            return by_rules
        weighed = self._weighed(asked, context, known_runs)
        if weighed is None:
            return by_rules
        if gap := self._gap(asked, context, weighed, by_rules):
            return unknown(gap)
        also = self._measured_too(asked, context)
        if asked.kind in _BY_RULES and by_rules.known and self._has_steps(asked, context):
            return _with_more(by_rules, also, weighed)
        return self._told(asked, weighed, by_rules, also)

    def _by_rules(self, asked: Asked, context: ChatContext) -> Answer:
        """Where an amount is asked for, what was measured or configured under its very name goes before the kind."""
        if asked.reading.slot is Slot.AMOUNT and asked.kind not in (*_EXACT, Kind.COMPARE):
            thing = f"{'num ' if asked.says(_HOW_MANY) else ''}{asked.owned}"
            found = self._measured.value(replace(asked, rest=thing, topic=thing), context)
            if found.known:
                return found
        return self._methods[asked.kind](asked, context)

    def _weighed(self, asked: Asked, context: ChatContext, known_runs: Sequence[str]) -> Weighed | None:
        """What passages of the cases that may be meant say; None where there is no case."""
        case_id = "" if asked.runs else context.investigation_id
        run_id = asked.runs[0].partition("#")[0] if asked.runs else context.run_id or None
        one = [self._store.knowledge.investigation(case_id)] if case_id else []
        cases = one or self._passages.near(asked.text, run_id)
        passages = self._passages.of(cases)
        return self._weighing.weigh(asked, passages, known_runs) if passages else None

    def _gap(self, asked: Asked, context: ChatContext, weighed: Weighed, by_rules: Answer) -> str:
        """What is asked for and not stored; "" when the question can be answered."""
        run_id = self._places.run(asked, context)
        if run_id is not None and self._store.runs.get(run_id).last_step:
            return self._answerable.of_a_run(asked, weighed, by_rules, self._places.stored_of(run_id))
        return self._answerable.of_a_case(asked, weighed, general=self._places.is_general(asked))

    def _told(self, asked: Asked, weighed: Weighed, by_rules: Answer, measured: tuple[Statement, ...]) -> Answer:
        """The best passages and what stands beside them, best first."""
        leading = by_rules.statements[:1]
        marks = [each.row.evidence[:1] for each in weighed.passages]
        order = ordered(weighed.scores, marks, leading[0].evidence[:1] if leading else None, RULES_FIRST)
        best = [weighed.passages[i] for i in order[:_MAX_SHOWN]]
        first = statements_of(each.row for each in best)
        known = {each.evidence[:1] for each in (*measured, *first)}
        more = [each for each in by_rules.statements if each.evidence[:1] not in known]
        if asked.says(_OF_COMMITS):
            more.sort(key=lambda each: each.evidence[0].kind != "commit")
        ahead = by_rules.known or not measured
        shown = (*first, *measured, *more) if ahead else (*measured, *first, *more)
        shown = shown[: _MAX_SHOWN + _MAX_BESIDE // 2]
        return Answer(statements=shown)

    def _measured_too(self, asked: Asked, context: ChatContext) -> tuple[Statement, ...]:
        """What was measured under a name that the question holds, whatever its form."""
        run_id = self._places.run(asked, context)
        if run_id is None or asked.kind in _MEASURED or not self._store.runs.get(run_id).last_step:
            return ()
        return statements_of(self._measured.named(asked, run_id))[:_MAX_MEASURED]

    def _names_what_is_well(self, asked: Asked, context: ChatContext) -> bool:
        """True when it asks for what went wrong with a quantity in which nothing was found, or compares nothing."""
        if asked.kind is Kind.COMPARE:
            return not telling(asked)
        run_id = self._places.run(asked, context)
        if asked.kind not in _OF_ANOMALIES or run_id is None or not self._places.statistic(asked, run_id):
            return False
        return not self._places.anomalies(asked, run_id)

    def _has_steps(self, asked: Asked, context: ChatContext) -> bool:
        run_id = self._places.run(asked, context)
        return run_id is not None and self._store.runs.get(run_id).last_step > 0

    def _is_out_of_range(self, asked: Asked, context: ChatContext) -> bool:
        """True when the question names a step or place that the run does not have: nothing near stands for those."""
        run_id = self._places.run(asked, context)
        if run_id is None:
            return False
        steps = [*asked.steps, *(int(n.replace(",", "")) for n in _NUM_STEPS.findall(asked.text))]
        last = self._store.runs.get(run_id).last_step
        if last and (asked.layers or asked.experts):
            return not any(is_at(name, asked) for name in self._store.series.names(run_id))
        return bool(steps) and 0 < last < max(steps)


def _with_more(by_rules: Answer, measured: tuple[Statement, ...], weighed: Weighed | None) -> Answer:
    """What rules read, what was measured under a name in the question, and the passages that are nearest to it."""
    read = by_rules.statements[:_MAX_READ]
    near = statements_of(each.row for each in weighed.passages[: _MAX_SHOWN // 2]) if weighed else ()
    beside = (*measured, *near)
    said = {each.evidence[:1] for each in read}
    return replace(by_rules, statements=(*read, *(each for each in beside if each.evidence[:1] not in said)))
