"""Questions about where things stand: runs, decisions, and the wish to look into something."""

from __future__ import annotations

from agents import evidence
from agents.chat.answer import Answer, from_result, from_rows, unknown
from agents.chat.happened import Happened
from agents.chat.places import ChatContext
from agents.chat.questions import Asked
from agents.chat.sources import Sources
from agents.skills import ConditionFailed
from agents.tools.knowledge import case_row, proposal_row, run_row
from agents.tools.matching import best, words
from agents.tools.protocol import row
from context_store.records import Proposal
from contracts.enums import InvestigationState, ProposalState

_WAITING = r"\b(open|pending|wait\w*|need\w*|undecided|outstanding)\b"
_CALLED = "proposal fix change carry on go on continue without revert sign off approve risk wrong"
_MAX_SHOWN = 5


class Standing:
    def __init__(self, sources: Sources, happened: Happened) -> None:
        self._from = sources
        self._happened = happened

    def status(self, asked: Asked, context: ChatContext) -> Answer:
        """Of the run meant, else of everything."""
        named = asked.runs[0].partition("#")[0] if asked.runs else context.run_id or None
        runs = self._from.rows("runs") if named is None else [run_row(self._from.store.runs.get(named))]
        cases = self._from.store.knowledge.investigations(run_id=named)
        going = [each for each in cases if named or each.state is not InvestigationState.CLOSED]
        waiting = [
            each
            for each in self._from.store.proposals.list(state=ProposalState.OPEN)
            if named is None or each.investigation_id in {case.id for case in cases}
        ]
        if named is None and not self._from.places.is_general(asked):
            return unknown("the question names no run that is stored")
        rows = [*runs[:4], *map(case_row, going[:3]), *map(proposal_row, waiting[:3])]
        return from_rows(rows, "no run is stored")

    def runs(self, asked: Asked, context: ChatContext) -> Answer:
        return from_result(self._from.toolbox.call("runs", {}))

    def decisions(self, asked: Asked, context: ChatContext) -> Answer:
        """What is remembered of it; then proposals of the case or run meant, else of all, newest first."""
        store = self._from.store
        remembered = self._from.rows("remembered", text=asked.topic) if words(asked.topic) else ()
        run_id = asked.runs[0].partition("#")[0] if asked.runs else context.run_id or None
        known = store.proposals.list(investigation_id=None if asked.runs else context.investigation_id or None)
        if run_id is not None:
            of_run = {case.id for case in store.knowledge.investigations(run_id=run_id)}
            known = [each for each in known if each.investigation_id in of_run or each.payload.get("run_id") == run_id]
        fitting = best(asked.topic, known, self._told, limit=_MAX_SHOWN, min_share=0.5)
        if not fitting and (self._from.places.is_general(asked) or asked.leading):
            fitting = known[::-1][:_MAX_SHOWN]
        waiting = [each for each in fitting if each.state is ProposalState.OPEN]
        if asked.says(_WAITING) and fitting and not waiting:
            refs = [evidence.proposal(each.id) for each in fitting]
            nothing = row("nothing waits for a decision: no proposal is open", *refs)
            return from_rows([nothing, *map(proposal_row, fitting)], "")
        shown = waiting if asked.says(_WAITING) and waiting else fitting
        rows = [*remembered[:2], *map(proposal_row, shown)]
        return from_rows(rows, "nothing of that kind was proposed")

    def _told(self, each: Proposal) -> str:
        """What a proposal may be called: also whose commits it is about."""
        rows = self._happened.culprits(each.investigation_id) if each.investigation_id else []
        return f"{each.title} {each.state} {each.decided_by} {' '.join(row.text for row in rows)} {_CALLED}"

    def investigate(self, asked: Asked, context: ChatContext) -> Answer:
        run_id = self._from.places.run(asked, context)
        if run_id is None:
            return unknown("say which run to look into")
        try:
            return from_rows(self._from.found_by("look_into_run", run_id=run_id), "")
        except ConditionFailed as error:
            return unknown(error.message)
