"""Grades submissions, in a sandbox of its own, after the episode and in another process than the code that is graded.

Standard input: a line of JSON an item {"id", "grader", "files"}; standard output: {"id", "score", "why"} for each. What
is expected never enters the process that runs submitted code: it learns only the calls. Every comparison is made here,
on text, with finite numbers only.
"""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from pathlib import Path
from typing import Any

from loops.evolve.inside.calls import in_process
from loops.evolve.inside.supervisor import empty, empty_workspace, end_all, guard

_WALL_S = 15.0


def graded(grader: dict[str, Any], files: dict[str, str], folder: Path) -> tuple[float, str]:
    """(score in [0, 1], reason)."""
    kinds = {"calls": _calls, "lines": _lines, "labels": _labels, "answer": _answer}
    if grader["kind"] not in kinds:
        return 0.0, f"no grader of kind {grader['kind']}"
    return kinds[grader["kind"]](grader, files, folder)


def _calls(grader: dict[str, Any], files: dict[str, str], folder: Path) -> tuple[float, str]:
    """All calls, those that failed before and those that passed before, must give what is expected."""
    name = grader["module"]
    if name not in files:
        return 0.0, f"{name} was not handed in"
    (folder / name).write_text(files[name])
    calls = [call for call, _ in grader["calls"]]
    found = in_process(folder / name, calls, _WALL_S)
    end_all()
    if not isinstance(found, list) or len(found) != len(calls) or not all(isinstance(each, dict) for each in found):
        return 0.0, "it did not answer in time"
    wrong = [
        i
        for i, (each, (_, expected)) in enumerate(zip(found, grader["calls"], strict=True))
        if each.get("value") != expected
    ]
    return float(not wrong), f"{len(wrong)} of {len(calls)} calls are wrong"


def _lines(grader: dict[str, Any], files: dict[str, str], folder: Path) -> tuple[float, str]:
    """A text file must hold these lines, in this order unless `sorted`; blanks at line ends do not count."""
    name = grader["file"]
    if name not in files:
        return 0.0, f"{name} was not handed in"
    found = [line.split() for line in files[name].strip().splitlines()]
    wanted = [line.split() for line in grader["lines"]]
    if grader.get("sorted"):
        found, wanted = sorted(found), sorted(wanted)
    return float(found == wanted), "as expected" if found == wanted else f"{name} differs"


def _labels(grader: dict[str, Any], files: dict[str, str], folder: Path) -> tuple[float, str]:
    """Labels for every row; passed at `at_least` accuracy. A scrambled task is failed by being right too often."""
    name = grader["file"]
    rows = list(csv.reader(io.StringIO(files.get(name, ""))))
    found = [row[0].strip() if row else "" for row in rows[1:]]
    wanted = grader["labels"]
    if len(found) != len(wanted):
        return 0.0, f"{len(found)} labels for {len(wanted)} rows"
    accuracy = sum(a == b for a, b in zip(found, wanted, strict=True)) / len(wanted)
    if not math.isfinite(accuracy):
        return 0.0, "no finite accuracy"
    return float(accuracy >= grader["at_least"]), f"accuracy {accuracy:.3f}"


GUESSED, GAVE_UP, OTHERS = "it names what nobody can tell", "it says unknown of what is known", "it names others"


def _answer(grader: dict[str, Any], files: dict[str, str], folder: Path) -> tuple[float, str]:
    """A JSON object: {"named": [...]}, the most likely first, or {"unknown": true}.

    Of the names the first `within` count: one of `right` must be among them, or with `whole` all. Without `right` only
    "unknown" passes.
    """
    try:
        found = json.loads(files.get(grader["file"], ""))
        named, unknown = found.get("named", []), found.get("unknown") is True
    except (ValueError, AttributeError, RecursionError):
        return 0.0, f"{grader['file']} holds no answer"
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named) or unknown == bool(named):
        return 0.0, f"{grader['file']} holds no answer"
    right, first = set(grader["right"]), set(named[: int(grader["within"])])
    if not right or unknown:
        return float(unknown and not right), "as expected" if unknown and not right else GAVE_UP if unknown else GUESSED
    passed = right <= first if grader["whole"] else bool(right & first)
    return float(passed), "as expected" if passed else OTHERS


def main() -> None:
    guard()
    folder = empty_workspace()
    for line in iter(sys.stdin.readline, ""):
        item = json.loads(line)
        empty(folder)
        score, why = graded(item["grader"], item["files"], folder)
        sys.stdout.write(json.dumps({"id": item["id"], "score": score, "why": why}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
