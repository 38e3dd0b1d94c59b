"""Keeps notes of what was tried, of the newest state of files and tests, and shows them with every view."""

import re

from mechanism import Mechanism as Base
from mechanism import Message

_KINDS = ("EDIT ", "RAN ", "FIT ", "SUSPECT ", "AVOID ")


class Mechanism(Base):
    def __init__(self, params: dict, desk: object) -> None:
        super().__init__(params, desk)
        self.lines: dict[str, None] = {}
        self.source = ""

    def view(self, messages: list[Message], fixed: int) -> list[Message]:
        for message in messages[fixed:]:
            for line in message["text"].split("\n"):
                if line.startswith(_KINDS):
                    note = re.sub(r"^(EDIT|RAN exit=-?\d+) ", "AVOID ", line)
                    self.lines.pop(note, None)  # the newest comes last
                    self.lines[note] = None
            if message["text"].startswith("== "):
                self.source = message["text"]
        notes = {"role": "note", "text": "\n".join([self.source, *self.lines])}
        rest = [each for each in messages[fixed:] if not each["text"].startswith("== ")]
        return [*messages[:fixed], notes, *rest[-6:]]
