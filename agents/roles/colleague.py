"""The roles as a loop uses them: each says its piece once a case (or verdict), and what it said is in the ledger."""

from __future__ import annotations

import time
from collections.abc import Callable

from agents import evidence
from agents.chat.answer import RULES
from agents.guidance import suggest, suggestions
from agents.llm import Door
from agents.roles.critic import Critic
from agents.roles.hypothesis import Hypothesis, order_of
from agents.roles.opinion import Opinion, Role, ask
from context_store import Store

_CRITICISE = "criticise"


class Colleague:
    """`door_of` gives the door in which a case's budget for agents is reserved; None: rules alone."""

    def __init__(
        self,
        store: Store,
        door_of: Callable[[str], Door | None] = lambda case_id: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._door_of = door_of
        self._clock = clock

    def suggest_order(self, case_id: str) -> None:
        """A model's order of the suspects, once a case; by rules their order is the stored one already."""
        if suggestions(self._store, case_id) or (door := self._door_of(case_id)) is None:
            return
        opinion = ask(Hypothesis(self._store, self._clock), door, case_id)
        order = () if opinion.brain == RULES else order_of(opinion, case_id)
        suggest(self._store, case_id, order, opinion=opinion.dump(), actor=_actor(opinion), at=self._clock())

    def review(self, case_id: str) -> str:
        """What the critic says of the newest verdict, as a section of the case's report; "" without a verdict."""
        verdicts = self._store.knowledge.verdicts(case_id)
        if not verdicts:
            return ""
        subject = str(evidence.numbered("verdict", verdicts[-1].id))
        known = [each for each in self._store.ledger.list(subject=subject) if each.action == _CRITICISE]
        if known:
            return _section(Opinion.load(known[0].detail["opinion"]))
        opinion = self._both(Critic(self._store, self._clock), case_id)
        refs = tuple(ref for each in opinion.statements for ref in each.evidence)
        detail = {"opinion": opinion.dump()}
        self._store.ledger.append(_actor(opinion), _CRITICISE, subject, detail, refs, self._clock())
        return _section(opinion)

    def _both(self, critic: Role, case_id: str) -> Opinion:
        """A model's objections stand beside those of the rules, never for them."""
        rules = ask(critic, None, case_id)
        door = self._door_of(case_id)
        if door is None:
            return rules
        said = ask(critic, door, case_id)
        if said.brain == RULES:
            return said
        return Opinion(**{**vars(said), "statements": (*rules.statements, *said.statements)})


def _actor(opinion: Opinion) -> str:
    return f"agent:{opinion.role}"


def _section(opinion: Opinion) -> str:
    lines = [f"- {each.text} ({', '.join(f'`{ref}`' for ref in each.evidence[:4])})" for each in opinion.statements]
    removed = f", {opinion.removed} of {opinion.claimed} claims removed" if opinion.claimed else ""
    plain = [f"\nWritten {note}." for note in opinion.notes if note.startswith("without a model: ")]
    return "\n".join([f"\n## Objections looked for\n\nBy {opinion.brain}{removed}.\n", *lines, *plain]) + "\n"
