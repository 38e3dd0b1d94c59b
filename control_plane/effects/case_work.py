"""A piece of a case's own work, in a process of its own: metered, limited, and begun again where it was killed.

What it answers is written to a file of the case before the process ends; an effect whose answer is there is done.
Whoever works holds a lock that the kernel drops with it, so that two executors never work on the same piece.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from context_store.records import Effect
from contracts.enums import EffectKind
from contracts.errors import BackendFailure, BudgetExceeded
from control_plane.backends.metered import Metered
from control_plane.disk import explained
from control_plane.effects.effect_kind import DONE, Done, Landed, Result, Workshop, parse_payload
from control_plane.worktrees import Tree

_GUARD = str(Path(__file__).parents[1] / "backends" / "guard.py")
_MAX_TRIES = 3  # of a piece whose process vanishes
PUT_OFF = 75  # its exit status when all is halted


class Seal(BaseModel):
    """What an approval to open the sealed tasks of a run binds: both ends of its line, after so many rounds.

    `trial` counts how often it was proposed: what was declined, or failed, may be asked for again.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    case_id: str
    suite: str
    first: str
    incumbent: str
    rounds: int = Field(ge=0)
    trial: int = Field(default=1, ge=1)


class CaseWorkPayload(BaseModel):
    """`work` is a name that the case's loop knows (control_plane.case_work)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    work: str
    arguments: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WorkFiles:
    """Of one effect, in the folder of its case."""

    folder: Path
    stem: str

    @classmethod
    def of(cls, cases: Path, effect: Effect) -> WorkFiles:
        """`cases` holds one folder for each case."""
        stem = hashlib.sha256(effect.key.encode()).hexdigest()[:32]
        return cls(folder=cases / case_of(effect), stem=stem)

    @property
    def answer(self) -> Path:
        return self.folder / "work" / f"{self.stem}.json"

    @property
    def lock(self) -> Path:
        return self.answer.with_suffix(".lock")

    @property
    def log(self) -> Path:
        return self.answer.with_suffix(".log")


class DoCaseWork:
    kind = EffectKind.CASE_WORK

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._cases = workshop.runs_folder.parent / "cases"
        self._running: dict[str, Metered] = {}
        self._tries: dict[str, int] = {}

    def check(self, effect: Effect) -> None:
        """UserInputError when the payload does not fit."""
        parse_payload(CaseWorkPayload, effect)

    def do(self, effect: Effect, tree: Tree | None) -> Done | None:
        """Begin it, or look at it. BudgetExceeded when it used up what was reserved; BackendFailure when it failed."""
        running = self._running.get(effect.key)
        if running is not None:
            return self._look(effect, running)
        files = WorkFiles.of(self._cases, effect)
        if files.answer.exists():
            return DONE
        self._begin(effect, files)
        return None

    def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
        """Its answer. Raises what ended it."""
        found = json.loads(WorkFiles.of(self._cases, effect).answer.read_text())
        if "error" in found:
            raise BackendFailure(found["error"], remedy=found["remedy"])
        return {"answer": found["answer"]}

    def _begin(self, effect: Effect, files: WorkFiles) -> None:
        """Unless another executor's process is still at it."""
        with explained(files.folder):
            files.answer.parent.mkdir(parents=True, exist_ok=True)
            with files.lock.open("w") as lock, files.log.open("ab") as log:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return
                process = self._start(effect, lock.fileno(), log.fileno())
        self._running[effect.key] = Metered(
            process, cpu_limit_s=self._cpu_left_s(effect), note=str(self._workshop.spent.path(effect.key))
        )

    def _start(self, effect: Effect, lock: int, log: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", _GUARD, str(os.getpid())]
        command += [sys.executable, "-m", "control_plane.case_work", effect.key]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **self._workshop.environment}
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[lock],
            start_new_session=True,
        )  # fmt: skip

    def _look(self, effect: Effect, running: Metered) -> Done | None:
        end = running.poll()
        reserved, spent = self._workshop.store.budgets.reserved(effect.key), self._workshop.spent.read(effect.key)
        late = end is None and reserved is not None and 0.0 < reserved.wall_s < spent.wall_s
        if late:
            running.kill()
        if end is None and not late:
            return None
        del self._running[effect.key]
        files = WorkFiles.of(self._cases, effect)
        if files.answer.exists():
            return DONE
        if late or (end is not None and end.over_limit):
            raise BudgetExceeded(
                f"{_name(effect)} used up the seconds that were reserved for it",
                remedy="ask for it again, with a larger budget",
            )
        if end is not None and end.status != PUT_OFF:
            self._count(effect, files)
        return None

    def _count(self, effect: Effect, files: WorkFiles) -> None:
        self._tries[effect.key] = self._tries.get(effect.key, 0) + 1
        if self._tries[effect.key] >= _MAX_TRIES:
            del self._tries[effect.key]
            raise BackendFailure(f"{_name(effect)} ended without an answer", remedy=f"read {files.log}")

    def _cpu_left_s(self, effect: Effect) -> float | None:
        reserved = self._workshop.store.budgets.reserved(effect.key)
        if reserved is None:
            return None
        return max(0.0, reserved.cpu_s - self._workshop.spent.read(effect.key).cpu_s)


def case_of(effect: Effect) -> str:
    """The case whose work it is: a seal is proposed by a person, so its own case does not wait for it."""
    return str(effect.payload["case_id"] if effect.kind is EffectKind.OPEN_SEAL else effect.investigation_id)


def _name(effect: Effect) -> str:
    return f"the work '{effect.payload.get('work', 'seal')}' of case {case_of(effect)}"
