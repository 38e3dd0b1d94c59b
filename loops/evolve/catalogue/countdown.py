"""Says with every view how many asks are left."""

from mechanism import Mechanism as Base
from mechanism import Message


class Mechanism(Base):
    def view(self, messages: list[Message], fixed: int) -> list[Message]:
        left = {"role": "note", "text": f"LEFT {self.desk.left}"}
        return [*messages, left] if self.desk.left else messages
