"""Whether a program does what its item asks: run in the sandbox against the item's tests, within 15 s (R801-9.6)."""

from __future__ import annotations

from agents.sandbox import Sandbox
from agents.sandbox.languages import Toolchain, Verdict, execute, find_toolchains
from agents.sandbox.protocol import DEFAULT_PATH
from contracts.errors import EnvironmentFault
from loops.evals.task import Item


class SandboxJudge:
    """Judges programs for the running interpreter."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._toolchain: Toolchain = find_toolchains(DEFAULT_PATH)["python"]

    def __call__(self, item: Item, program: str) -> bool:
        """Raises EnvironmentFault where Python cannot be run at all: that is no failed test."""
        assert item.code is not None, "only code items are judged"
        done = execute(self._sandbox, self._toolchain, f"{program}\n\n{item.code.tests}\n")
        if done.verdict is Verdict.NOT_RUN:
            raise EnvironmentFault(f"programs cannot be run: {done.reason}", remedy="give the sandbox an interpreter")
        return done.verdict is Verdict.PASSED
