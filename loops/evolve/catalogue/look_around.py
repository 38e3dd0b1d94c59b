"""Lists all files before the first ask."""

from mechanism import Mechanism as Base


class Mechanism(Base):
    def opening(self) -> list[str]:
        return [self.desk.tool("list_files", {})]
