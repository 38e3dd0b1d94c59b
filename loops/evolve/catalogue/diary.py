"""Writes a sentence about each step into the history."""

from mechanism import Action
from mechanism import Mechanism as Base


class Mechanism(Base):
    def after(self, action: Action, text: str) -> str:
        return (
            f"{text}\nI used {action['tool']} because the task asked for it, and I should think about what came of it."
        )
