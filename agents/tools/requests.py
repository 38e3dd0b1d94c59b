"""Tools that act: each inserts one request, and a person or a loop decides what becomes of it. None can approve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from pydantic import Field

from agents import evidence
from agents.tools.memory import NOTES, RESERVED, memory_row
from agents.tools.protocol import Arguments, Tool, ToolResult, result, row
from context_store import Store
from context_store.records import NewProposal, Proposal
from contracts.enums import EffectKind, MemoryKind, ProposalState
from contracts.errors import UserInputError
from contracts.evidence import EvidenceRef

_VALID_S = 7 * 24 * 3600.0


class OpensCases(Protocol):
    """Looks at a run and opens a case for what is wrong; the debug loop does."""

    def __call__(self, run_id: str) -> str | None:
        """The case's id, None when nothing is wrong. Idempotent. Raises NotFound."""
        ...


class Wish(StrEnum):
    STOP = "stop"
    PAUSE = "pause"
    GO_ON = "go_on"
    CHECKPOINT = "checkpoint"


_KINDS = {
    Wish.STOP: EffectKind.STOP_RUN,
    Wish.PAUSE: EffectKind.PAUSE_RUN,
    Wish.GO_ON: EffectKind.UNPAUSE_RUN,
    Wish.CHECKPOINT: EffectKind.CHECKPOINT_RUN,
}


class StartInvestigation(Arguments):
    run_id: str


class Remember(Arguments):
    """`key`: what it is about, as a short path; a later note under the same key supersedes this one."""

    key: str = Field(pattern=r"^[a-z0-9][a-z0-9_./-]{0,80}$")
    text: str = Field(min_length=1, max_length=1000)
    kind: MemoryKind
    evidence: tuple[str, ...] = Field(min_length=1, max_length=8)


class ProposeRunControl(Arguments):
    """`evidence`: what the wish rests on, as kind:id#slice; at least one."""

    run_id: str
    wish: Wish
    reason: str = Field(min_length=1, max_length=500)
    evidence: tuple[str, ...] = Field(min_length=1, max_length=8)


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Where requests are handed in. `actor` is who asked, as the ledger shall name them."""

    open_case: OpensCases
    actor: str
    clock: Callable[[], float]

    def tools(self) -> tuple[Tool, ...]:
        return (
            Tool(
                name="start_investigation",
                description="Ask the debug loop to look into a run. It opens a case when something is wrong.",
                arguments=StartInvestigation,
                run=self.start_investigation,
                acts=True,
            ),
            Tool(
                name="propose_run_control",
                description="Propose to stop, pause, go on with or checkpoint a run. A person has to approve it.",
                arguments=ProposeRunControl,
                run=self.propose_run_control,
                acts=True,
            ),
            Tool(
                name="remember",
                description="Note a convention, fact, decision or failure across runs, with what it rests on. It stays "
                "your note until a person confirms it.",
                arguments=Remember,
                run=self.remember,
                acts=True,
            ),
        )

    def start_investigation(self, store: Store, arguments: StartInvestigation) -> ToolResult:
        """Raises NotFound for an unknown run."""
        run = store.runs.get(arguments.run_id)
        case_id = self.open_case(run.id)
        if case_id is None:
            return result([], f"run {run.id} shows nothing wrong, so no case was opened")
        subject = evidence.case(case_id)
        store.ledger.append(self.actor, "asked_for_investigation", str(subject), {"run_id": run.id}, (), self.clock())
        case = store.knowledge.investigation(case_id)
        return result([row(f"case {case_id} is {case.state}: {case.title}", subject, evidence.run(run.id))], "")

    def remember(self, store: Store, arguments: Remember) -> ToolResult:
        """A note of the agent's own, which supersedes no entry of a person; one may confirm it in chat.

        Raises UserInputError for evidence that is no reference, and for a key that is kept for something else.
        """
        refs = tuple(EvidenceRef.parse(text) for text in arguments.evidence)
        if arguments.key.startswith(RESERVED):
            raise UserInputError(f"'{arguments.key}' is kept for something else", remedy="begin the key otherwise")
        kept = store.memory.remember(
            NOTES + arguments.key,
            arguments.text,
            kind=arguments.kind,
            evidence=refs,
            author=self.actor,
            at=self.clock(),
        )
        said = memory_row(kept)
        return result([row(f"{said.text}; a person confirms it with: confirm {arguments.key}", *said.evidence)], "")

    def propose_run_control(self, store: Store, arguments: ProposeRunControl) -> ToolResult:
        """Raises NotFound for an unknown run, UserInputError for evidence that is no reference."""
        run = store.runs.get(arguments.run_id)
        refs = tuple(EvidenceRef.parse(text) for text in arguments.evidence)
        if any(ref.kind == "proposal" for ref in refs):
            raise UserInputError("a proposal is no evidence for a proposal", remedy="cite what was measured")
        wish = NewProposal(
            investigation_id=run.investigation_id,
            kind=_KINDS[arguments.wish],
            title=f"{arguments.wish.value.replace('_', ' ')}: run {run.id}",
            payload={"run_id": run.id},
            diff="",
            base_state=f"{run.id} at step {run.last_step}",
            risk=f"asked for by {self.actor}: {arguments.reason}",
            verification="the run's state in the store",
            evidence=refs,
            expires_at=self.clock() + _VALID_S,
            owner=self.actor.removeprefix("chat:"),
        )
        proposal = _waiting(store, wish) or store.proposals.put(wish)
        subject = evidence.proposal(proposal.id)
        store.ledger.append(self.actor, "proposed", str(subject), {"wish": arguments.wish.value}, refs, self.clock())
        is_open = proposal.state is ProposalState.OPEN
        state = "waits for a reviewer" if is_open else f"is {proposal.state} already"
        return result([row(f"{proposal.id} {state}: {proposal.title}", subject)], "")


def _waiting(store: Store, wish: NewProposal) -> Proposal | None:
    """The same wish, where it waits already: a run that has gone on since does not make another of it."""
    same = (wish.kind, wish.payload, wish.risk, wish.evidence)
    known = store.proposals.list(ProposalState.OPEN, wish.investigation_id)
    return next((each for each in known if (each.kind, each.payload, each.risk, each.evidence) == same), None)
