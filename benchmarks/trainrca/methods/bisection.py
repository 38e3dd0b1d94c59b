"""Bisection over the commits since the last good version: log2(n) re-runs, and no look at what the commits say."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.trainrca.answers import Answer, Facts
from benchmarks.trainrca.form import Case
from benchmarks.trainrca.placing import Bench
from context_store.records import Diagnostic, NewRun
from contracts.enums import DiagnosticKind, RunRole, Verdict
from control_plane.run_folders import claim_segment, read_launch
from control_plane.trainings import follow
from control_plane.worktrees import CodeVersion
from loops.debug import case as debug_case
from loops.debug import detect, open_case
from loops.debug.experiments import commits_in_order
from loops.debug.readout import read_rerun

_SHOWS = 0.5  # of the recorded anomaly


def answer(lathe: Bench, case: Case, facts: Facts) -> Answer:
    """The first commit whose version, from the last good checkpoint, shows at least half of the anomaly."""
    began, spent = time.monotonic(), lathe.recording.spent_s
    case_id = open_case(lathe.store, case.id, detect(lathe.store, case.id), time.time())
    if case_id is None:
        return Answer(verdict=str(Verdict.NOTHING_FOUND), seconds=facts.seconds)
    opened = debug_case.load_case(lathe.store, case_id)
    commits = [f.commit.hash for f in commits_in_order(opened.scene) if f.commit and f.is_new] if opened.scene else []
    versions = [opened.scene.good, *commits] if opened.scene else []
    shown: dict[int, bool | None] = {}
    found = _search(lathe, case, opened, versions, shown)
    named = (f"commit:{versions[found]}",) if found is not None else ()
    rest = [f"commit:{commit}" for commit in reversed(commits)]
    seconds = time.monotonic() - began + (lathe.recording.spent_s - spent)
    return Answer(
        verdict=str(Verdict.PROVEN if named else Verdict.CANNOT_TELL),
        named=named,
        ranking=tuple(dict.fromkeys([*named, *rest])),
        found_at=facts.found_at,
        reruns=len(shown),
        seconds=facts.seconds + seconds,
    )


def _search(
    lathe: Bench, case: Case, opened: debug_case.Case, versions: Sequence[str], shown: dict[int, bool | None]
) -> int | None:
    """Index of the first version that shows it; None when the ends do not differ or one cannot be read."""

    def shows(number: int) -> bool | None:
        if number not in shown:
            shown[number] = _shows(lathe, case, opened, versions[number])
        return shown[number]

    low, high = 0, len(versions) - 1
    if high < 1 or shows(low) is not False or shows(high) is not True:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        result = shows(middle)
        if result is None:
            return None
        low, high = (low, middle) if result else (middle, high)
    return high


def _shows(lathe: Bench, case: Case, opened: debug_case.Case, commit: str) -> bool | None:
    """None when the version cannot be run or read."""
    assert opened.scene is not None
    run_id = f"bisect-{commit[:12]}"
    project = lathe.store.projects.get(opened.project_id)
    tree = lathe.worktrees.materialise(Path(project.path), CodeVersion(base=commit))
    source = read_launch(lathe.settings.runs_folder / case.id, opened.scene.segment.number)
    folder = lathe.settings.runs_folder / run_id
    lathe.store.runs.create(
        NewRun(id=run_id, project_id=project.id, name=run_id, role=RunRole.DIAGNOSTIC, folder=str(folder))
    )
    launch = claim_segment(
        folder,
        "bisect",
        lambda number: replace(
            source,
            run_id=run_id,
            segment=number,
            run_folder=str(folder),
            project=str(tree.project),
            code_version=tree.commit,
            max_step=opened.window.hi,
        ),
    )
    follow(lathe.backend, lathe.shipper, launch)
    diagnostic = Diagnostic(
        investigation_id=opened.investigation.id,
        key=run_id,
        kind=DiagnosticKind.REVERT,
        label=run_id,
        suspect_keys=(),
        run_id=run_id,
        effect_key="",
    )
    measured = read_rerun(lathe.store, opened, diagnostic, None)
    return None if measured is None else measured.mean >= _SHOWS
