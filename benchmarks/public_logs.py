"""Published logs and what is known about them: imported, judged by every detector, diagnosed where something is found.

FOLDER holds the files of `LOGS` (megatron/, speedrun/, ...). Of each file it is known what has to be found and at which
steps; whatever else is said counts as a false alarm. None of them can be run again, so no cause may be named: the only
right verdict is "cannot tell". What is known of two runs together, or of tables and lists, is no finding in a run:
those rows are told as not covered, neither right nor wrong. One JSON object as the last line. Shows R801-3.2 and
R801-3.20 on logs that nobody here wrote.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.place import work_folder
from context_store.importers import Options, discover, store
from contracts.enums import Verdict
from control_plane.cli.investigate import work_on
from control_plane.settings import Settings
from control_plane.wiring import Lathe
from loops.debug import detect, open_case
from loops.debug.finding import Finding


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A finding of one of these kinds whose onset or statement lies at a step of `steps` (None: anywhere)."""

    kinds: tuple[str, ...]
    steps: tuple[int, int] | None = None
    words: str = ""  # of the statement

    def fits(self, finding: Finding) -> bool:
        lo, hi = self.steps or (finding.onset[0], finding.onset[1])
        touches = finding.onset[0] <= hi and finding.onset[1] >= lo
        return finding.kind in self.kinds and touches and re.search(self.words, finding.statement) is not None


@dataclass(frozen=True, kw_only=True)
class Log:
    """One file or folder. `known`: what is published on it; runs of one `project` are compared with each other."""

    path: str
    known: str
    wanted: tuple[Wanted, ...] = ()
    project: str = ""


SILENT = "nothing wrong"
LOGS = (
    Log(path="speedrun/2024-10-29_adam.log", known="content of single batches is no instability"),
    Log(path="speedrun/2024-10-29_muon.log", known="content of single batches is no instability"),
    Log(path="speedrun/2024-11-24_window_warmup.log", known="slows down by design"),
    Log(path="speedrun/2026-05_20runs_one_file.log", known="20 sound runs, no resumes"),
    Log(path="torchtitan/qwen3_moe_cuda.txt", known=SILENT),
    Log(path="torchtitan/qwen3_moe_rocm_mi350x.txt", known=SILENT),
    Log(path="megatron/gpt3_resume_full.json", known="a correct resume", project="gpt3"),
    Log(path="megatron/gpt3_resume_second_half.json", known="a correct resume", project="gpt3"),
    Log(
        path="megatron/mixtral_8x7b_24k_golden.json",
        known="spikes at 3,850 and 4,260 that recover, cause not in the file; process starts are no slow node",
        wanted=(
            Wanted(kinds=("spike",), steps=(3845, 3860), words="recovers"),
            Wanted(kinds=("spike",), steps=(4255, 4270), words="recovers"),
        ),
    ),
    Log(
        path="megatron/bloom176b_lines.log",
        known="spike at 31,219 led by the gradient norm from 31,215; speed falls at 42,782 to 42,784",
        wanted=(
            Wanted(kinds=("spike",), steps=(31215, 31219)),
            Wanted(kinds=("throughput",), steps=(42780, 42784), words="loss does not move"),
        ),
    ),
    Log(
        path="hf/viz_multi_eval.trainer_state.json",
        known="over-fitting in all six groups",
        wanted=(Wanted(kinds=("over_fitting",)),),
    ),
    Log(path="generated/hf_trainer/results", known="two unfinished, sound runs"),
    Log(path="generated/hf_trainer/rerun", known=SILENT),
    Log(path="wandb/tinylm_a", known=SILENT),
    Log(path="generated/tiny_moe/wandb", known="one run, a clean resume, a loss scaler that finds its level"),
    Log(path="generated/tiny_moe/tb/base-seed1", known="a clean resume", project="tiny"),
    Log(
        path="generated/tiny_moe/tb/noaux-seed1",
        known="starved experts in each layer, the loss unharmed",
        wanted=(Wanted(kinds=("expert_departure",), words="expert"),),
        project="tiny",
    ),
    Log(
        path="generated/tiny_moe/tb/resume-seed1-b",
        known="only the model was restored: loss above its parent's, loss scale anew",
        wanted=(Wanted(kinds=("fork_departure", "resume"), words="restored"),),
        project="tiny",
    ),
    Log(path="generated/tiny_moe/jsonl", known="the same values as plain lines: a clean resume"),
    Log(
        path="generated/tiny_moe/mlruns",
        known="three sound seeds, and one with starved experts",
        wanted=(Wanted(kinds=("expert_departure",), words="expert"),),
    ),
    Log(path="wandb/tinylm_b", known="only configuration and last values: nothing to judge"),
)
NOT_COVERED = (
    ("speedrun, adam against muon", "muon better as a bundle, step time not attributable, spikes at the same steps"),
    ("speedrun/2024-11-24_window_warmup.log", "six facts differ from the record before: its gain is not the window's"),
    ("speedrun/2026-05_20runs_one_file.log", "sd of the last value 0.00098, the noise floor of later comparisons"),
    ("torchtitan, cuda against rocm", "other weights at step 1: no statement on the hardware"),
    ("evals/bloom1b3_lmeval.json, bloom2b5", "17 of 27 tasks within two standard errors, 8 won, 2 lost"),
    ("autoresearch/results_H100_mar8.tsv", "126 experiments, a crash logged as 0.0, 14 of 22 gains unproven, repeats"),
    ("wandb, tinylm_a against tinylm_b", "four times the updates, warm-up not separable, steps count other things"),
    ("generated/tiny_moe, noaux against base", "more starved experts; no proven effect on the loss over three seeds"),
    ("generated/hf_trainer, rerun against results", "noise of a re-run, no regression"),
    ("negative_results/nanochat.jsonl", "25 negative results in three eras, two ideas tried twice"),
    ("incidents.jsonl", "20 incidents: by its symptom each is found first, five without a proven cause"),
)


def imported(lathe: Lathe, path: Path, project: str) -> list[str]:
    """The runs that a file or folder holds."""
    before = {run.id for run in lathe.store.runs.list(limit=10_000)}
    found, _ = discover(str(path))
    options = Options(actor="benchmark", project=project or None, following=False)
    report = store(list(found), lathe.store.url, options, clock=time.time, tell=lambda _: None)
    named = {run.run_id for run in report.runs}
    return sorted(named or {run.id for run in lathe.store.runs.list(limit=10_000)} - before)


def verdict_of(lathe: Lathe, run_id: str, findings: Sequence[Finding]) -> str:
    """Of the run's first case, worked on; "silent" without findings."""
    case_id = open_case(lathe.store, run_id, findings, time.time())
    if case_id is None:
        return "silent"
    work_on(lathe, case_id)
    verdict = lathe.store.knowledge.verdicts(case_id)[0]
    return f"{verdict.verdict} ({verdict.scope})"


def row_of(lathe: Lathe, folder: Path, log: Log) -> dict[str, Any]:
    """Expected and given of one file."""
    runs = imported(lathe, folder / log.path, log.project)
    said = {run_id: detect(lathe.store, run_id) for run_id in runs}
    findings = [finding for found in said.values() for finding in found]
    missed = [w for w in log.wanted if not any(w.fits(finding) for finding in findings)]
    extra = [f for f in findings if f.standalone and not any(wanted.fits(f) for wanted in log.wanted)]
    verdicts = sorted({verdict_of(lathe, run_id, found) for run_id, found in said.items()} - {"silent"})
    over_claims = [verdict for verdict in verdicts if not verdict.startswith(Verdict.CANNOT_TELL)]
    return {
        "file": log.path,
        "runs": len(runs),
        "expected": log.known,
        "given": [finding.statement for finding in findings],
        "verdicts": verdicts,
        "missed": len(missed),
        "false_alarms": [finding.statement for finding in extra],
        "right": bool(runs) and not missed and not extra and not over_claims,
    }


def as_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table for docs/results.md."""
    lines = ["| file | runs | known | given | verdict | right |", "|---|---|---|---|---|---|"]
    for row in rows:
        given = "; ".join(row["given"]).replace("|", "/") or "silent"
        cells = (row["file"], row["runs"], row["expected"], given, ", ".join(row["verdicts"]) or "-")
        lines.append(f"| {' | '.join(map(str, cells))} | {'yes' if row['right'] else 'NO'} |")
    lines += [f"| {what} | - | {known} | not covered | - | - |" for what, known in NOT_COVERED]
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the published files lie")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--only", default="", help="files whose path contains this")
    options = parser.parse_args()
    logs = [log for log in LOGS if options.only in log.path and (options.folder / log.path).exists()]
    with work_folder() as home:
        settings = Settings(home=home / "home", backend="local", fresh_seeds=0, embedder="hashed")
        with Lathe.open(settings) as lathe:
            rows = [row_of(lathe, options.folder.absolute(), log) for log in logs]
    sys.stdout.write(as_markdown(rows) + "\n")
    if options.json:
        right = sum(row["right"] for row in rows)
        counts = {"right": right, "of": len(rows), "absent": len(LOGS) - len(rows), "rows": rows}
        sys.stdout.write(json.dumps({**counts, "not_covered": len(NOT_COVERED)}))
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
