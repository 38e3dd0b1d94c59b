"""Which files of a project this process imported, and which of their lines it ran."""

from __future__ import annotations

import ast
import hashlib
import sys
from pathlib import Path
from types import FrameType
from typing import Any

_FOREIGN = {"site-packages", "dist-packages", ".venv"}


class ExecutionRecord:
    """Traces project files only, from `start` to `stop`; other code runs at full speed but for one check a call."""

    def __init__(self, project: Path) -> None:
        self._project = project.resolve()
        self._lines: dict[str, set[int]] = {}
        self._tracers: dict[str, Any] = {}
        self.is_running = False

    def start(self) -> None:
        self.is_running = True
        sys.settrace(self._trace)

    def stop(self) -> None:
        self.is_running = False
        sys.settrace(None)

    def modules(self) -> dict[str, str]:
        """sha256 of every imported project file, by its path relative to the project."""
        files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        found = {self._relative(file): file for file in files if file}
        return {
            name: hashlib.sha256(Path(file).read_bytes()).hexdigest() for name, file in sorted(found.items()) if name
        }

    def lines(self) -> dict[str, list[int]]:
        """Lines of the statements that ran, by path relative to the project."""
        return {
            name: sorted(whole_statements((self._project / name).read_text(), lines))
            for name, lines in sorted(self._lines.items())
        }

    def _relative(self, file: str) -> str:
        """Path inside the project, or "" for other files."""
        path = Path(file).resolve()
        if not path.is_relative_to(self._project) or not path.is_file():
            return ""
        relative = path.relative_to(self._project)
        return "" if _FOREIGN.intersection(relative.parts) else relative.as_posix()

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        file = frame.f_code.co_filename
        if file not in self._tracers:
            self._tracers[file] = self._line_tracer(file)
        tracer = self._tracers[file]
        return tracer(frame, event, argument) if tracer else None

    def _line_tracer(self, file: str) -> Any:
        name = self._relative(file) if file.endswith(".py") else ""
        if not name:
            return None
        lines = self._lines.setdefault(name, set())

        def trace(frame: FrameType, event: str, argument: object) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return trace

        return trace


def whole_statements(source: str, lines: set[int]) -> set[int]:
    """`lines`, and the other lines of the statements they belong to (without the bodies of compound ones)."""
    whole = set(lines)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            extent = range(node.lineno, max(end, node.lineno) + 1)
            if not lines.isdisjoint(extent):
                whole.update(extent)
    return whole
