"""Chat without a model: recognises the question, asks the same tools a model would, and cites what they cite.

It never guesses: what no row of the store says is answered with what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from agents import evidence
from agents.chat.answer import Answer, Card, CardKind, from_result, from_rows, unknown
from agents.chat.places import ChatContext, Places, plot, plots
from agents.chat.questions import Asked, Kind, recognise
from agents.tools import Row, Toolbox
from agents.tools.knowledge import anomaly_row, case_row, proposal_row, verdict_row
from agents.tools.matching import best
from agents.tools.protocol import row
from agents.tools.series import departures
from context_store import Store
from context_store.records import Investigation, Proposal, Suspect
from contracts.enums import InvestigationState, ProposalState
from contracts.errors import UserInputError

_MAX_STATEMENTS = 8
_MAX_EVENTS, _MAX_COMMITS = 5, 10
_WINDOW = 50
_DEPARTS = 6.0  # spreads of its own past
_AGAINST_OTHERS = 3.0  # and so many times the typical place

Method = Callable[[Asked, ChatContext], Answer]


class Retrieval:
    """`answer` is the whole of it; the methods are one a kind of question."""

    def __init__(self, store: Store, toolbox: Toolbox) -> None:
        self._store = store
        self._toolbox = toolbox
        self._places = Places(store)

    def answer(self, question: str, context: ChatContext) -> Answer:
        """Raises NotFound when the context names what is not there."""
        asked = recognise(question, self._places.run_ids())
        if asked.strangers:
            return unknown(f"there is no run '{asked.strangers[0]}'")
        methods: dict[Kind, Method] = {
            Kind.INVESTIGATE: self._investigate,
            Kind.COMMIT: self._commit,
            Kind.COMPARE: self._compare,
            Kind.TRIED: self._tried,
            Kind.WHY_NOT: self._why_not,
            Kind.FIX: self._fix,
            Kind.DEPARTS: self._departs,
            Kind.CHANGED: self._changed,
            Kind.DECISIONS: self._decisions,
            Kind.SIMILAR: self._similar,
            Kind.WHY: self._why,
            Kind.WHEN: self._when,
            Kind.VALUE: self._value,
            Kind.STATUS: self._status,
            Kind.OTHER: self._similar,
        }
        return methods[asked.kind](asked, context)

    # --- what happened -----------------------------------------------------------------------------------------

    def _changed(self, asked: Asked, context: ChatContext) -> Answer:
        """Before the step named, else before the onset of what was found, newest first."""
        run_id = self._places.run(asked, context)
        if run_id is None:
            return unknown("the question names no run, and its words fit no case")
        found = self._places.anomalies(asked, run_id) or self._store.knowledge.anomalies(run_id)
        until = asked.steps[-1] if asked.steps else (found[0].onset[1] if found else None)
        since = asked.steps[0] if len(asked.steps) > 1 else None
        events = self._toolbox.call("timeline", {"run_id": run_id, "lo": since, "hi": until})
        commits = self._toolbox.call("commits", {"run_id": run_id, "upto_step": until})
        rows = [*events.rows[:_MAX_EVENTS], *commits.rows[:_MAX_COMMITS]]
        where = f"before step {until}" if until is not None else "so far"
        return from_rows(
            rows, f"nothing is recorded to have changed in run {run_id} {where}", plots(self._store, found, 1)
        )

    def _commit(self, asked: Asked, context: ChatContext) -> Answer:
        for project in self._store.projects.list():
            try:
                return from_result(self._toolbox.call("hunks", {"project_id": project.id, "commit": asked.commit}))
            except UserInputError:
                continue
        return unknown(f"no project has one commit '{asked.commit}'")

    def _compare(self, asked: Asked, context: ChatContext) -> Answer:
        runs = [*([context.run_id] if context.run_id else []), *asked.runs][-2:]
        if len(runs) < 2:
            return unknown("a comparison needs two runs or segments (RUN or RUN#SEGMENT) by name")
        found = self._toolbox.call("config_diff", {"before": runs[0], "after": runs[1]})
        if found.rows:
            return from_result(found)
        same = row(f"no difference: {found.nothing}", *(evidence.run(each.partition("#")[0]) for each in runs))
        return from_rows([same], "")

    def _departs(self, asked: Asked, context: ChatContext) -> Answer:
        """Places that leave their own past and the others; "none does" is an answer too."""
        run_id = self._places.run(asked, context)
        if run_id is None:
            return unknown("the question names no run, and its words fit no case")
        known = self._places.anomalies(asked, run_id)
        statistic = self._places.statistic(asked, run_id)
        if not statistic or not asked.steps:
            return from_rows(
                map(anomaly_row, known), f"no departure is stored for run {run_id}", plots(self._store, known)
            )
        since = asked.steps[0]
        matrix = self._store.series.across(run_id, statistic, since - _WINDOW, since + _WINDOW)
        if not len(matrix.steps):
            return unknown(f"run {run_id} has no '{statistic}' around step {since}")
        score = departures(matrix, since)[1]
        typical = np.nanpercentile(score, 50, method="lower") if np.isfinite(score).any() else 0.0
        far = np.flatnonzero(score >= max(_DEPARTS, _AGAINST_OTHERS * typical)).tolist()
        leading = self._toolbox.call("statistic_across", {"run_id": run_id, "statistic": statistic, "since": since})
        if not far:
            ref = evidence.series(run_id, matrix.names[0], max(0, since - _WINDOW), since + _WINDOW)
            return from_rows([row(f"no place of {statistic} departs at step {since} in run {run_id}", ref)], "")
        return from_rows(
            leading.rows[: len(far)],
            "",
            [plot(self._store, run_id, matrix.names[far[0]], max(0, since - _WINDOW), since + _WINDOW)],
        )

    def _when(self, asked: Asked, context: ChatContext) -> Answer:
        run_id = self._places.run(asked, context)
        if run_id is None:
            return unknown("the question names no run, and its words fit no case")
        found = self._places.anomalies(asked, run_id)
        return from_rows(
            map(anomaly_row, found), f"no such anomaly is stored for run {run_id}", plots(self._store, found)
        )

    def _value(self, asked: Asked, context: ChatContext) -> Answer:
        run_id = self._places.run(asked, context)
        names = self._places.names(asked, run_id) if run_id else []
        if run_id is None or not names:
            return unknown("no series of that name was measured" + (f" in run {run_id}" if run_id else ""))
        last = self._store.runs.get(run_id).last_step
        lo, hi = (asked.steps[0], asked.steps[-1]) if asked.steps else (last, last)
        found = self._toolbox.call("series_window", {"run_id": run_id, "name": names[0], "lo": lo, "hi": hi})
        return from_result(found, [plot(self._store, run_id, names[0], max(0, lo - _WINDOW), hi + _WINDOW)])

    # --- what was found out ------------------------------------------------------------------------------------

    def _why(self, asked: Asked, context: ChatContext) -> Answer:
        """The verdicts of the case that fits, then what it rests on; without a case, what was seen."""
        cases = self._places.cases(asked, context)
        if cases:
            return self._case(cases[0], asked)
        run_id = self._places.run(asked, context)
        found = self._places.anomalies(asked, run_id) if run_id else []
        rows = [*map(anomaly_row, found)]
        if rows:
            rows.append(row(f"nobody has looked into it yet: ask to investigate {run_id}", evidence.run(str(run_id))))
        return from_rows(rows, "no case and no anomaly fits these words", plots(self._store, found))

    def _case(self, case: Investigation, asked: Asked) -> Answer:
        knowledge = self._store.knowledge
        anomalies = knowledge.anomalies(investigation_id=case.id)
        rows = [verdict_row(each) for each in knowledge.verdicts(case.id)][::-1]
        rows = [*rows[:2], case_row(case), *map(anomaly_row, anomalies[:2])]
        rows += [_suspect_row(each) for each in knowledge.suspects(case.id)[:2]]
        card = Card(kind=CardKind.CASE, title=case.title, evidence=evidence.case(case.id), detail={"id": case.id})
        return from_rows(rows, "", [card, *plots(self._store, anomalies), *self._proposal_cards(case.id)])

    def _fix(self, asked: Asked, context: ChatContext) -> Answer:
        """Proposals of the case that fits, then the case."""
        cases = self._places.cases(asked, context)
        if not cases:
            return unknown("no case fits these words")
        proposals = self._store.proposals.list(investigation_id=cases[0].id)
        about = self._case(cases[0], asked)
        first = from_rows(map(proposal_row, proposals), "").statements
        return Answer(statements=(*first, *about.statements)[:_MAX_STATEMENTS], cards=about.cards)

    def _why_not(self, asked: Asked, context: ChatContext) -> Answer:
        """Suspects and negative results that the words fit, with the reasons given."""
        run_id = asked.runs[0].partition("#")[0] if asked.runs else context.run_id or None
        cases = self._store.knowledge.investigations(run_id=run_id)
        if context.investigation_id and not asked.runs:
            cases = [self._store.knowledge.investigation(context.investigation_id)]
        suspects = [each for case in cases for each in self._store.knowledge.suspects(case.id)]
        fitting = best(asked.topic, suspects, lambda each: f"{each.key} {each.title}", limit=3)
        ruled_out = self._toolbox.call("negative_results", {"text": asked.topic})
        rows = [*map(_suspect_row, fitting), *ruled_out.rows[:4]]
        return from_rows(rows, "nothing of that kind was ever suspected, tested or ruled out")

    def _tried(self, asked: Asked, context: ChatContext) -> Answer:
        found = self._toolbox.call("negative_results", {"text": asked.topic})
        proposals = best(asked.topic, self._store.proposals.list(), lambda each: each.title, limit=2)
        remembered = self._toolbox.call("remembered", {"text": asked.topic})
        rows = [*found.rows[:6], *remembered.rows[:2], *map(proposal_row, proposals)]
        return from_rows(rows, "nothing of that kind was tried before")

    def _similar(self, asked: Asked, context: ChatContext) -> Answer:
        cases = best(asked.topic, self._store.knowledge.investigations(), self._places.case_text, limit=3)
        negatives = self._toolbox.call("negative_results", {"text": asked.topic or "-"})
        cards = [
            Card(kind=CardKind.CASE, title=c.title, evidence=evidence.case(c.id), detail={"id": c.id}) for c in cases
        ]
        return from_rows([*map(case_row, cases), *negatives.rows[:3]], "nothing stored fits these words", cards)

    # --- where things stand ------------------------------------------------------------------------------------

    def _status(self, asked: Asked, context: ChatContext) -> Answer:
        """Of the run meant, else of everything."""
        named = asked.runs[0].partition("#")[0] if asked.runs else context.run_id or None
        runs = self._toolbox.call("runs", {}).rows if named is None else [self._run_row(named)]
        cases = self._store.knowledge.investigations(run_id=named)
        going = [each for each in cases if named or each.state is not InvestigationState.CLOSED]
        waiting = [
            each
            for each in self._store.proposals.list(state=ProposalState.OPEN)
            if named is None or each.investigation_id in {case.id for case in cases}
        ]
        rows = [*runs[:4], *map(case_row, going[:3]), *map(proposal_row, waiting[:3])]
        return from_rows(rows, "no run is stored", _cards(waiting[:3]))

    def _decisions(self, asked: Asked, context: ChatContext) -> Answer:
        """Of the case or run meant, else of all; newest first."""
        run_id = asked.runs[0].partition("#")[0] if asked.runs else context.run_id or None
        known = self._store.proposals.list(investigation_id=None if asked.runs else context.investigation_id or None)
        if run_id is not None:
            of_run = {case.id for case in self._store.knowledge.investigations(run_id=run_id)}
            known = [each for each in known if each.investigation_id in of_run or each.payload.get("run_id") == run_id]
        fitting = (
            best(asked.topic, known, lambda each: f"{each.title} {each.state} {each.decided_by}", limit=5) or known
        )
        return from_rows(map(proposal_row, fitting[::-1][:5]), "nothing was proposed", _cards(fitting[::-1][:5]))

    def _investigate(self, asked: Asked, context: ChatContext) -> Answer:
        run_id = self._places.run(asked, context)
        if run_id is None:
            return unknown("say which run to look into")
        return from_result(self._toolbox.call("start_investigation", {"run_id": run_id}))

    def _run_row(self, run_id: str) -> Row:
        run = self._store.runs.get(run_id)
        why = f": {run.message}" if run.message else ""
        return row(f"run {run.id} is {run.state} at step {run.last_step}{why}", evidence.run(run.id))

    def _proposal_cards(self, case_id: str) -> list[Card]:
        return _cards(self._store.proposals.list(state=ProposalState.OPEN, investigation_id=case_id))


def _cards(proposals: Sequence[Proposal]) -> list[Card]:
    return [
        Card(
            kind=CardKind.PROPOSAL,
            title=each.title,
            evidence=evidence.proposal(each.id),
            detail={"id": each.id, "state": each.state},
        )
        for each in proposals
    ]


def _suspect_row(each: Suspect) -> Row:
    own = evidence.part_of_case("suspect", each.investigation_id, each.key)
    status = each.status or "not decided"
    return row(f"suspect {each.title}: {status}. {each.reason}", own, *each.evidence)
