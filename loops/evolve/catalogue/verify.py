"""Checks every change at once and takes back an edit that did not help, without asking the brain."""

import re

from mechanism import Action
from mechanism import Mechanism as Base


class Mechanism(Base):
    failed: int | None = None  # how many tests failed in the best state so far

    def instead(self, action: Action) -> None:
        if action["tool"] == "edit" and self.failed is None:
            self.failed = _failed(self.desk.tool("run_tests", {}))

    def after(self, action: Action, text: str) -> str:
        if action["tool"] == "shell" and text.startswith("RAN exit=0"):
            return f"{text}\n{self.desk.tool('run_tests', {})}"
        if action["tool"] != "edit" or not text.startswith("EDIT "):
            return text
        tests = self.desk.tool("run_tests", {})
        if _failed(tests) < self.failed:
            self.failed = _failed(tests)
            return f"{text}\n{tests}\n{self.desk.tool('read_file', {'path': action['args']['path']})}"
        return f"{text}\n{tests.splitlines()[0]}\n{self.desk.tool('undo', {})}"


def _failed(text: str) -> int:
    match = re.search(r"failed=(\d+)", text)
    return int(match[1]) if match else 10**6
