"""Reads the file in question, runs the tests and looks for suspicious lines before the first ask."""

import re

from mechanism import Mechanism as Base


class Mechanism(Base):
    def opening(self) -> list[str]:
        path = re.search(r"\b[\w/]+\.py\b", self.desk.task)
        if not self.desk.task.startswith("bugfix") or not path:
            return []
        args = {"path": path[0]}
        return [self.desk.tool("read_file", args), self.desk.tool("run_tests", {}), self.desk.tool("localise", args)]
