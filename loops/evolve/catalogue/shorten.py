"""Shortens long answers of tools, except files that were read."""

from mechanism import Action
from mechanism import Mechanism as Base


class Mechanism(Base):
    def after(self, action: Action, text: str) -> str:
        limit = self.params["answer_chars"]
        return text if action["tool"] == "read_file" or len(text) <= limit else text[:limit] + "\n[shortened]"
