"""Repeats the task at the end of every view."""

from mechanism import Mechanism as Base
from mechanism import Message


class Mechanism(Base):
    def view(self, messages: list[Message], fixed: int) -> list[Message]:
        return [*messages, {"role": "note", "text": self.desk.task}]
