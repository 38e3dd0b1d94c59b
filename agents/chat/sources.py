"""What every answer without a model is made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.chat.answer import Answer
from agents.chat.places import ChatContext, Places
from agents.chat.questions import Asked
from agents.skills import SkillBook
from agents.tools import Row, Toolbox
from context_store import Store

NO_RUN = "the question names no run, and its words fit no case"
Method = Callable[[Asked, ChatContext], Answer]


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The store, the tools over it and the skills made of them, and what names in a question mean."""

    store: Store
    toolbox: Toolbox
    skills: SkillBook
    places: Places

    def rows(self, tool: str, **arguments: object) -> tuple[Row, ...]:
        return self.toolbox.call(tool, arguments).rows

    def found_by(self, skill: str, **inputs: object) -> tuple[Row, ...]:
        """Raises ConditionFailed, UserInputError for a skill whose tools are not here."""
        return tuple(fact.row for fact in self.skills.run(skill, inputs).facts)

    def ends(self, run_id: str, asked: Asked) -> str:
        """What to say of a step that the run never reached; "" otherwise."""
        last = self.store.runs.get(run_id).last_step
        return (
            f"run {run_id} has no step {max(asked.steps)}: its last is {last}"
            if asked.steps and last < max(asked.steps)
            else ""
        )
