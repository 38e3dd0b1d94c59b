"""Runs inside the foreign training (as its `sitecustomize`): which project files it executed, and which lines of them.

Standard library only, Python 3.8 or newer; imports nothing of Lathe. Each fact is appended to a file at once, so a kill
loses nothing: `F SHA256 PATH` for a file that was imported or run, `L NUMBER PATH` for a line that ran. Files are
followed to the end; lines only until a file `stop` appears beside the log (then the training runs at full speed).
What it does not see: lines run by threads that native code started, and code that was compiled without its file.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import os
import sys
import threading
import time

_LOOK_EVERY = 512  # traced events between two looks at the clock
_LOOK_S = 0.2
_FOREIGN = ("site-packages", "dist-packages", ".venv")


class Tracer:
    """Follows files below `project` in this process and those it forks."""

    def __init__(self, project: str, log: str) -> None:
        self._root = os.path.realpath(project) + os.sep
        self._stop = os.path.join(os.path.dirname(log), "stop")
        self._file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._names: dict[str, str] = {}
        self._seen: set[tuple[str, int]] = set()
        self._events = 0
        self._look_at = 0.0
        self._is_on = True

    def start(self) -> None:
        sys.addaudithook(self._audit)
        threading.settrace(self._call)
        sys.settrace(self._call)

    def _audit(self, event: str, arguments: tuple) -> None:  # type: ignore[type-arg]
        if event == "exec" and arguments and hasattr(arguments[0], "co_filename"):
            self._name(arguments[0].co_filename)

    def _name(self, file: str) -> str:
        """Path inside the project, "" for other files; a new one is hashed and noted."""
        known = self._names.get(file)
        if known is None:
            known = self._names[file] = self._inside(file)
            if known:
                with open(self._root + known, "rb") as source:
                    self._write(f"F {hashlib.sha256(source.read()).hexdigest()} {known}\n")
        return known

    def _inside(self, file: str) -> str:
        path = os.path.realpath(file)
        if not path.startswith(self._root) or not path.endswith(".py") or not os.path.isfile(path):
            return ""
        name = path[len(self._root) :].replace(os.sep, "/")
        return "" if set(_FOREIGN).intersection(name.split("/")) else name

    def _call(self, frame, event, argument):  # type: ignore[no-untyped-def]
        self._events += 1
        if self._events % _LOOK_EVERY == 0:
            self._look()
        if not self._is_on:
            sys.settrace(None)  # of this thread
            return None
        file = frame.f_code.co_filename
        known = self._names.get(file)
        return self._line if (self._name(file) if known is None else known) else None

    def _line(self, frame, event, argument):  # type: ignore[no-untyped-def]
        self._events += 1
        if self._events % _LOOK_EVERY == 0:
            self._look()
        if not self._is_on:
            sys.settrace(None)
            return None
        if event == "line":
            place = (frame.f_code.co_filename, frame.f_lineno)
            if place not in self._seen:
                self._seen.add(place)
                self._write(f"L {place[1]} {self._names[place[0]]}\n")
        return self._line

    def _look(self) -> None:
        if self._is_on and time.monotonic() > self._look_at:
            self._look_at = time.monotonic() + _LOOK_S
            self._is_on = not os.path.exists(self._stop)
            if not self._is_on:
                threading.settrace(None)

    def _write(self, text: str) -> None:
        os.write(self._file, text.encode("utf-8", "surrogateescape"))


def give_way(own_folder: str) -> None:
    """Run the `sitecustomize` that the environment would have had without this one."""
    sys.path[:] = [entry for entry in sys.path if entry != own_folder]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
