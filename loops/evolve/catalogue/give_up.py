"""Hands in after the tests have failed a few times."""

from mechanism import Action
from mechanism import Mechanism as Base


class Mechanism(Base):
    failures = 0

    def after(self, action: Action, text: str) -> str:
        self.failures += "failed=0" not in text and "TESTS " in text
        return self.desk.tool("submit", {}) if self.failures > 6 else text
