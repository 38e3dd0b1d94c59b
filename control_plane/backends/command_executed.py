"""What a foreign training executed: puts the tracer into its interpreter, and reads what it notes down."""

from __future__ import annotations

from pathlib import Path

from control_plane.backends.command_logs import Lines
from trainer.executed import whole_statements

_TRACER = Path(__file__).with_name("command_tracer.py")
_FOLDER = "trace"
_LOG = "executed.txt"

Executed = tuple[dict[str, str], dict[str, list[int]]]


def install_tracer(attempt: Path, project: Path) -> Path:
    """Make the folder that goes first on PYTHONPATH. Programs that are not Python, or ignore it, leave no trace."""
    folder = attempt / _FOLDER
    folder.mkdir(parents=True)
    start = f"Tracer({str(project)!r}, {str(folder / _LOG)!r}).start()"
    (folder / "sitecustomize.py").write_text(f"{_TRACER.read_text()}\n\n{start}\ngive_way({str(folder)!r})\n")
    return folder


class ExecutedWatch:
    """Reads the tracer's notes of one attempt."""

    def __init__(self, project: Path, attempt: Path) -> None:
        self._project = project
        self._folder = attempt / _FOLDER
        self._notes = Lines(self._folder / _LOG)
        self._hashes: dict[str, str] = {}

    def stop_lines(self) -> None:
        """From now on the training runs without its lines being followed."""
        (self._folder / "stop").touch()

    def look(self) -> Executed | None:
        """(sha256 by file, lines of the statements that ran by file), of the files with news; None without any."""
        lines: dict[str, set[int]] = {}
        for note in self._notes:
            kind, value, path = note.split(" ", 2)
            found = lines.setdefault(path, set())
            if kind == "F":
                self._hashes[path] = value
            else:
                found.add(int(value))
        if not lines:
            return None
        return {path: self._hashes[path] for path in lines}, {
            path: sorted(self._whole(path, found)) for path, found in lines.items()
        }

    def _whole(self, path: str, lines: set[int]) -> set[int]:
        return whole_statements((self._project / path).read_text(), lines)
