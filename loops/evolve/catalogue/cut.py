"""Cuts the view to the room there is: prompt, task and notes stay, then the newest of what happened."""

from mechanism import Mechanism as Base
from mechanism import Message


class Mechanism(Base):
    def view(self, messages: list[Message], fixed: int) -> list[Message]:
        notes = [each for each in messages[fixed:] if each["role"] == "note"]
        room = self.params["view_chars"] - sum(len(each["text"]) for each in [*messages[:fixed], *notes])
        kept: list[Message] = []
        for message in reversed([each for each in messages[fixed:] if each["role"] != "note"]):
            room -= len(message["text"])
            if room < 0:
                break
            kept.insert(0, message)
        return [*messages[:fixed], *notes, *kept]
