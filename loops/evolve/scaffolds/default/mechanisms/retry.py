"""Repeats a command that says it failed for the moment only (exit 75, EX_TEMPFAIL)."""

from mechanism import Action
from mechanism import Mechanism as Base


class Mechanism(Base):
    def after(self, action: Action, text: str) -> str:
        for _ in range(self.params["retries"]):
            if not text.startswith("RAN exit=75"):
                break
            text = self.desk.tool(action["tool"], action["args"])
        return text
