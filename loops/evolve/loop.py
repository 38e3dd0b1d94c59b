"""The evolve loop on the runner that drives all loops: rounds are pieces of a case's own work, in the sandbox.

Its case is about a scaffold, a folder under git that is known as a project, and about no run. What was asked for is
`asked` of the case; the rounds' journal is its casework. Opening the sealed tasks and putting a scaffold to use are
for a person: the loop ends with the proposal of a promotion, or with what was tried and not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from context_store import Store
from context_store.negatives import hash_of_diff
from context_store.records import Amount, Effect, EffectRequest, EffectSize, NegativeResult, NewProposal, Proposal
from contracts.enums import EffectKind, EffectState, ProposalState, SignalStrength
from contracts.errors import NotFound
from contracts.evidence import EvidenceRef
from loops.core import (
    Applied,
    Charter,
    Conclusion,
    Limits,
    Link,
    LoopClass,
    Planned,
    Question,
    Request,
    Update,
    Verified,
)
from loops.evolve.acceptance import Rule
from loops.evolve.archive import Archive
from loops.evolve.journal import Body, CaseJournal, Mended
from loops.evolve.parents import Search
from loops.evolve.plan import CONTROL, PLACEBO, History, Plan
from loops.evolve.report import markdown

NAME = "evolve"
VALID_S = 14 * 24 * 3600.0  # how long a promotion may wait for a person
_RETRIES = 3  # pieces that failed, in one run
PIECES = 20  # a run is that many pieces of work at most
LIMITS = Limits(
    max_rounds=PIECES + 4, unit="pieces of work", wall_s=14 * 24 * 3600.0, cpu_s=0.0, reruns=0
)  # its budget is that of `Asked`
_CPU_PER_EPISODE_S = 1.5  # an upper estimate; what is not used goes back


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a person asked for. `suite`: a folder of tasks, "" for ours; `argv`: the command of a foreign scaffold."""

    suite_hash: str
    rounds: int = 100
    seed: int = 0
    search: str = str(Search.GREEDY)
    effect: float = 0.1
    max_pairs: int = 300
    max_episodes: int = 40_000
    frozen_proposer: bool = False
    suite: str = ""
    argv: tuple[str, ...] = ()
    model: bool = False  # proposals by the language model, where one is configured
    fork: str = ""  # CASE@ROUND
    fix_seed: int | None = None  # of a fork: that of its source, whose fix results it goes on with
    control: bool = True  # whether a round tests our fixed edit; it says nothing of a scaffold that declares its own

    @classmethod
    def read(cls, body: Body) -> Asked:
        known = {each.name: body[each.name] for each in fields(cls) if each.name in body}
        return cls(**{**known, "argv": tuple(known.get("argv", ()))})

    def plan(self, case_id: str) -> Plan:
        rule = Rule(rounds=self.rounds, effect=self.effect, max_pairs=self.max_pairs)
        return Plan(
            run=case_id, suite_hash=self.suite_hash, seed=self.seed, search=Search(self.search), rule=rule,
            block=min(20, self.max_pairs), frozen_proposer=self.frozen_proposer, max_episodes=self.max_episodes,
            fix_seed=self.fix_seed,
            control_round=(self.rounds + 1) // 2 if self.control and not self.argv else 0,
        )  # fmt: skip

    @property
    def rounds_a_piece(self) -> int:
        return -(-self.rounds // PIECES)

    @property
    def amount(self) -> Amount:
        """The budget of the whole run."""
        return Amount(cpu_s=_CPU_PER_EPISODE_S * self.max_episodes, reruns=PIECES + 4, wall_s=0.0)


class EvolveLoop:
    """See `loops.core.Loop`."""

    name = NAME
    charter = Charter(
        loop_class=LoopClass.QUANTIFICATION,
        broken_links=(Link.MEASURE, Link.UPDATE),
        why_broken="a scaffold that is kept for a better score on few tasks is mostly kept for luck, a hundred times",
        closes_at="paired runs on small tasks with fresh seeds, kept only where the run's error budget allows it",
        signal=SignalStrength.PAIRED_RERUN,
    )

    def __init__(self, store: Store) -> None:
        self._store = store

    def recall(self, case_id: str) -> Question:
        case = self._store.knowledge.investigation(case_id)
        return Question(text=f"scaffold {case.title}", project_id=case.project_id)

    def propose(self, case_id: str) -> Planned | Conclusion:
        """The next piece of rounds; the end when they are done, the budget is spent, or pieces failed too often."""
        asked, history = self._asked(case_id), self._history(case_id)
        done = len(history.decisions)
        failed = history.journal.list("failed")
        if len(failed) > _RETRIES:
            return Conclusion(reason=f"it ends after {done} rounds: {failed[-1][1]['message']}")
        if history.over:
            return Conclusion(reason=f"{done} rounds are done, {len(_kept(history))} changes were kept")
        until = min(asked.rounds, (done // asked.rounds_a_piece + 1) * asked.rounds_a_piece)
        cpu_s = _CPU_PER_EPISODE_S * 2 * (asked.max_pairs + 24) * asked.rounds_a_piece
        request = EffectRequest(
            key=f"evolve:{case_id}:{until}" + f":{len(failed)}" * bool(failed),
            kind=EffectKind.CASE_WORK,
            payload={"work": "rounds", "arguments": {"until": until}},
            investigation_id=case_id,
            actor=f"loop:{NAME}",
        )
        left = self._store.budgets.state(case_id).left
        price = Amount(cpu_s=min(cpu_s, left.cpu_s), reruns=1)
        return Planned(requests=(Request(effect=request, cost=price),), reason=f"rounds {done + 1} to {until}")

    def measure(self, case_id: str, effects: Sequence[Effect]) -> str:
        """The rounds have written their own journal; only failures are noted here, and a piece is tried again."""
        for effect in effects:
            if effect.state is not EffectState.DONE:
                body = {"message": effect.message}
                self._store.casework.put(case_id, "failed", effect.key, body, effect.finished_at or effect.requested_at)
        history = self._history(case_id)
        kept = _kept(history)
        return f"{len(history.decisions)} rounds, {len(kept)} kept, {history.episodes} episodes"

    def update(self, case_id: str, stopped: str) -> Update:
        """Report, negative results of what was tried, and the proposal of a promotion when anything was kept."""
        history = self._history(case_id)
        for body in history.decisions:
            if not body["kept"] and body["candidate"] and history.kind(body) not in (PLACEBO, CONTROL):
                self._store.negatives.add(self._negative(case_id, history, body))
        kept = _kept(history)
        if not kept and not self._store.negatives.list(investigation_id=case_id):
            self._store.negatives.add(self._nothing(case_id, stopped))
        statement = f"{len(kept)} of {len(history.decisions)} rounds were kept" + (f" ({stopped})" if stopped else "")
        self._store.knowledge.set_investigation(case_id, statement=statement)
        self._store.knowledge.put_report(case_id, markdown(history))
        proposal = self._proposal(case_id, history) if kept else None
        return Update(statement=statement, evidence=(_about(case_id),), proposal_id=proposal.id if proposal else None)

    def verify(self, case_id: str, applied: Applied) -> Verified:
        """Whether the scaffold is in use now."""
        history = self._history(case_id)
        if applied.effect is None or applied.effect.state is not EffectState.DONE:
            why = applied.proposal.comment if applied.effect is None else applied.effect.message
            self._store.negatives.add(self._nothing(case_id, f"the promotion was declined: {why}"))
            return Verified(sentence=f"the scaffold stays as it was: {why or 'the promotion was not carried out'}")
        self._store.knowledge.put_report(case_id, markdown(history))
        return Verified(sentence=f"scaffold {history.incumbent[:12]} is in use")

    # --- parts --------------------------------------------------------------------------------------------------

    def _asked(self, case_id: str) -> Asked:
        return asked_of(self._store, case_id)

    def _history(self, case_id: str) -> History:
        return history_of(self._store, case_id)

    def _proposal(self, case_id: str, history: History) -> Proposal:
        open_ones = self._store.proposals.list(state=ProposalState.OPEN, investigation_id=case_id)
        if open_ones:
            return open_ones[0]
        case = self._store.knowledge.investigation(case_id)
        project = self._store.projects.get(case.project_id)
        archive = Archive(Path(project.path), case_id)
        name = scaffold_name(project.path)
        base = archive.stands_at(f"refs/lathe/scaffold/{name}")
        payload = {"project_id": project.id, "name": name, "base": base, "candidate": history.incumbent}
        kept = _kept(history)
        smallest = max(body["detectable"] for body in kept)
        return self._store.proposals.put(
            NewProposal(
                investigation_id=case_id,
                kind=EffectKind.PROMOTE_SCAFFOLD,
                title=f"use scaffold {name} as it is after {len(history.decisions)} rounds ({len(kept)} changes kept)",
                payload=payload,
                diff=archive.diff(base, history.incumbent),
                base_state=f"refs/lathe/scaffold/{name} at {base or 'no commit'}",
                risk="what it does better on these tasks it may do worse on others; the sealed tasks tell. Gains below "
                f"{smallest:.2f} of the tasks could have been missed",
                verification="the ref stands at the candidate; taking it back moves it to where it stood",
                evidence=(_about(case_id),),
                expires_at=case.opened_at + VALID_S,
            )
        )

    def _negative(self, case_id: str, history: History, body: Body) -> NegativeResult:
        proposal = history.journal.get("proposal", str(body["round"])) or {}
        case = self._store.knowledge.investigation(case_id)
        what = "; ".join(body["moves"])
        effect = EffectSize(what="share of tasks solved", value=body["mean"], unit="difference to the incumbent")
        return NegativeResult(
            claim=f"{what} makes the scaffold solve more tasks",
            intervention=what,
            context={"base": body["base"], "suite": history.plan.suite_hash[:16]},
            expected=f"a gain of at least {history.plan.rule.effect:.0%} of the tasks",
            observed=_observed(body),
            reason_class=body["standing"],
            reason=f"{body['why']}: {1 / body['alpha']:.0f} was needed" if body["num_pairs"] else body["why"],
            evidence=(_about(case_id),),
            reopen_if="the scaffold or the tasks are others",
            investigation_id=case_id,
            actor=f"loop:{NAME}",
            project_id=case.project_id,
            code_version=body["candidate"],
            observed_effect=effect,
            diff_hash=hash_of_diff(proposal.get("diff", "")),
        )

    def _nothing(self, case_id: str, why: str) -> NegativeResult:
        case = self._store.knowledge.investigation(case_id)
        return NegativeResult(
            claim=f"{case.title} can be improved by {NAME}", intervention="an evolution run", context={},
            expected="a change that is kept", observed=why or "no round was finished", reason_class="not_kept",
            reason=why or "no round was finished", evidence=(_about(case_id),), reopen_if="it is asked for again",
            investigation_id=case_id, actor=f"loop:{NAME}", project_id=case.project_id,
        )  # fmt: skip


def asked_of(store: Store, case_id: str) -> Asked:
    """Raises NotFound when the case is none of this loop."""
    if store.knowledge.investigation(case_id).loop != NAME:
        raise NotFound(f"case {case_id} is no evolution run", remedy="lathe evolve run SCAFFOLD begins one")
    return Asked.read(dict(store.casework.get(case_id, "asked", "0").body))


def history_of(store: Store, case_id: str) -> History:
    """As the rounds see it: a decision that was cut off from its memory is due once more."""
    journal = Mended(CaseJournal(store, case_id, lambda: 0.0))
    return History(journal=journal, plan=asked_of(store, case_id).plan(case_id))


def seals_of(store: Store, case_id: str) -> int:
    """Runs on the same tasks whose seal is open: what was chosen after the first is no longer blind to them."""
    suite_hash = asked_of(store, case_id).suite_hash
    asked = {work.case_id: work.body["suite_hash"] for work in store.casework.of_loop(NAME, "asked")}
    return sum(asked.get(work.case_id) == suite_hash for work in store.casework.of_loop(NAME, "sealed"))


def scaffold_name(folder: str) -> str:
    """How its ref is called: the folder's name, as far as refs allow it."""
    return "".join(sign if sign.isalnum() or sign in "-_" else "-" for sign in Path(folder).name)[:64] or "scaffold"


def _kept(history: History) -> list[dict[str, Any]]:
    return [body for body in history.decisions if body["kept"]]


def _observed(body: Body) -> str:
    """What the pairs said, and which gain they would have shown."""
    if not body["num_pairs"]:
        return "it did not come to pairs"
    return (
        f"{body['mean']:+.3f} over {body['num_pairs']} pairs, wealth {body['wealth']:.2f}; "
        f"gains of {body['detectable']:.2f} of the tasks and more would have been seen with power 0.9"
    )


def _about(case_id: str) -> EvidenceRef:
    return EvidenceRef(kind="investigation", id=case_id)
