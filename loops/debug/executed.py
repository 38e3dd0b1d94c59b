"""Did a re-run execute the lines of a change? Without that it proves nothing about it (design section 5.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from context_store import Store
from context_store.records import Executed, Hunk
from loops.debug.suspects import Factor


def lines_now(hunk: Hunk, later: Iterable[Hunk]) -> set[int]:
    """Where the lines that `hunk` wrote lie after the `later` changes of the same file, in order (commit by commit).

    A hunk that only removed lines is represented by the lines around the gap. Lines that a later change replaced
    are gone.
    """
    lines = set(range(hunk.new_start, hunk.new_start + hunk.new_lines)) or {hunk.new_start, hunk.new_start + 1}
    for commit_hunks in _by_commit(h for h in later if h.path == hunk.path):
        lines = {moved for line in lines if (moved := _moved(line, commit_hunks)) is not None}
    return lines


def ran_lines(factor: Factor, later: Sequence[Factor], executed: Executed) -> bool | None:
    """True when at least one line of the change ran. None when it touches no Python file (nothing to execute)."""
    hunks = [hunk for hunk in factor.hunks if hunk.path.endswith(".py")]
    if not hunks:
        return None
    after = [hunk for other in later for hunk in other.hunks]
    return any(lines_now(hunk, after) & set(_lines_of(executed, hunk.path)) for hunk in hunks)


def is_imported(factor: Factor, executed: Executed) -> bool:
    """True when the process imported a Python file of the change."""
    return any(_find(executed.modules, hunk.path) is not None for hunk in factor.hunks if hunk.path.endswith(".py"))


def is_inert(factor: Factor) -> bool:
    """Static check: True when the change is in prose only, which no training executes."""
    return bool(factor.hunks) and all(PurePosixPath(hunk.path).suffix in (".md", ".rst") for hunk in factor.hunks)


def inputs_differ(store: Store, run_with: str, run_without: str) -> bool:
    """True when the two runs differ in their declared or effective configuration, or in the samples they read."""
    runs = store.runs
    pairs = (
        [runs.declared(run, 0) for run in (run_with, run_without)],
        [runs.effective(run, 0) for run in (run_with, run_without)],
        [runs.data_reads(run).hashes for run in (run_with, run_without)],
    )
    return any(one != other for one, other in pairs)


def files_differ(store: Store, factor: Factor, run_with: str, run_without: str) -> bool:
    """True when a file of the change was imported with different content, or by one of the two runs only."""
    a, b = (store.runs.executed(run, 0).modules for run in (run_with, run_without))
    paths = {hunk.path for hunk in factor.hunks}
    return any(_find(a, path) != _find(b, path) for path in paths)


def _by_commit(hunks: Iterable[Hunk]) -> list[list[Hunk]]:
    grouped: dict[str, list[Hunk]] = {}
    for hunk in hunks:
        grouped.setdefault(hunk.commit, []).append(hunk)
    return list(grouped.values())


def _moved(line: int, hunks: Sequence[Hunk]) -> int | None:
    """The line's number after one commit, None when that commit replaced it."""
    shift = 0
    for hunk in sorted(hunks, key=lambda h: h.old_start):
        if hunk.old_lines and hunk.old_start <= line < hunk.old_start + hunk.old_lines:
            return None
        first_behind = hunk.old_start + (hunk.old_lines or 1)
        if line >= first_behind:
            shift += hunk.new_lines - hunk.old_lines
    return line + shift


def _lines_of(executed: Executed, path: str) -> tuple[int, ...]:
    return next((lines for known, lines in executed.lines.items() if _same_file(path, known)), ())


def _find(modules: Mapping[str, str], path: str) -> str | None:
    return next((digest for known, digest in modules.items() if _same_file(path, known)), None)


def _same_file(repository_path: str, project_path: str) -> bool:
    """The project may be a folder of the repository."""
    parts, tail = PurePosixPath(repository_path).parts, PurePosixPath(project_path).parts
    return parts[-len(tail) :] == tail
