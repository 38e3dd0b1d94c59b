"""The folder of one demo: which fault and seed, how far it came, and that only one process works in it.

    demo.json     what this demo is, seconds spent so far, whether it has finished
    truth.json    which commit carries the fault; opened only after the verdict is stored
    project/      the git repository that Lathe is shown
    report/       the Markdown report with its plots
Everything else in it belongs to the control plane.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from contracts.errors import UserInputError


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What `demo.json` holds. `case_id` None: nobody looked yet; "": nothing was wrong."""

    fault: str
    seed: int
    case_id: str | None = None
    spent_s: float = 0.0
    finished: bool = False


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What was planted."""

    fault: str
    cause_kind: str
    commits: tuple[str, ...]


class DemoHome:
    """The files of one demo. Writes are atomic, so a kill at any moment leaves the old or the new content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.report = folder / "report"
        self._progress_file = folder / "demo.json"
        self._truth_file = folder / "truth.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder; a process that dies lets go. Raises UserInputError when another demo works here."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "demo.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UserInputError(
                    f"another demo is running in {self.folder}",
                    remedy="wait for it, or choose another --seed or --home",
                ) from error
            yield

    def progress(self) -> Progress | None:
        """How far the demo here came; None in a new folder. Raises UserInputError for a folder of something else."""
        if not self._progress_file.exists():
            others = [path.name for path in self.folder.iterdir() if path.name != "demo.lock"]
            if others:
                raise UserInputError(
                    f"{self.folder} holds something else than a demo ({sorted(others)[0]})",
                    remedy="give --home a new or empty folder",
                )
            return None
        return Progress(**json.loads(self._progress_file.read_text()))

    def save(self, progress: Progress) -> Progress:
        _write(self._progress_file, json.dumps(asdict(progress), indent=1))
        return progress

    def clear(self) -> None:
        """Remove everything of the demo here except the lock."""
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name not in ("demo.lock", "demo.json"):
                path.unlink()
        self._progress_file.unlink(missing_ok=True)  # last: until then the folder is known as a demo's

    def hide_truth(self, truth: Truth) -> None:
        _write(self._truth_file, json.dumps(asdict(truth), indent=1))

    def open_truth(self) -> Truth:
        """Only for the comparison at the end."""
        kept = json.loads(self._truth_file.read_text())
        return Truth(**{**kept, "commits": tuple(kept["commits"])})


def _write(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".new")
    draft.write_text(text + "\n")
    draft.replace(path)
