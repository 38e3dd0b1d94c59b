"""The pages of an export: what a person reads first, one page a run, one a case, and what did not hold."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from context_store.database import Database
from context_store.knowledge import Knowledge
from context_store.negatives import Negatives
from context_store.records import Investigation, Run
from context_store.runs import Runs
from context_store.timeline import Timeline
from contracts.enums import TimelineKind

_PAGE = 500
_ABOUT = """# Export of a Lathe store

Made {when}. Everything here is readable without Lathe.

| where | what |
|---|---|
| `tables/NAME.parquet` | one table of the store each, columns by name; times are UTC; JSON values are text |
| `points/RUN.parquet` | every point of a run: `series`, `segment`, `step`, `value`, `canonical` |
| `runs/RUN.md`, `cases/CASE.md`, `negative_results.md` | pages for people |

`value` is a float64 as it was logged: NaN and both infinities are values, nothing is sampled. A segment is one start of
a training; `canonical` is false for points that were made again later. `tables/series.parquet` has the parts of
each name (statistic, module, layer, expert, rank). Not here: checkpoint files, run folders, access tokens.

```python
import pandas as pd

points = pd.read_parquet("points/RUN.parquet")
loss = points[(points.series == "lm_loss") & points.canonical].set_index("step").value
```

## Rows

{counts}

## Runs

{runs}
"""


def write_pages(database: Database, folder: Path, counts: Mapping[str, int], now: float) -> None:
    """README.md and the pages it names."""
    runs, knowledge = Runs(database), Knowledge(database)
    for name in ("runs", "cases"):
        (folder / name).mkdir()
    rows = []
    for run in _all_runs(runs):
        (folder / "runs" / f"{file_name(run.id)}.md").write_text(_run_page(database, run))
        link = f"[{run.id}](runs/{quote(file_name(run.id))}.md)"
        rows.append((link, run.role, run.state, run.last_step, run.name))
    for case in knowledge.investigations():
        (folder / "cases" / f"{file_name(case.id)}.md").write_text(_case_page(knowledge, case))
    (folder / "negative_results.md").write_text(_negatives_page(Negatives(database)))
    about = _ABOUT.format(
        when=_when(now),
        counts=_table(("table", "rows"), sorted(counts.items())),
        runs=_table(("run", "role", "state", "step", "name"), rows),
    )
    (folder / "README.md").write_text(about)


def file_name(identity: str) -> str:
    """One for any id."""
    return quote(identity, safe="")


def _all_runs(runs: Runs) -> Iterator[Run]:
    last: str | None = None
    while page := runs.list(limit=_PAGE, before=last):
        yield from page
        last = page[-1].id


def _run_page(database: Database, run: Run) -> str:
    runs = Runs(database)
    segments = runs.segments(run.id)
    parts = [f"# Run {run.id}\n", f"{run.name}: {run.role}, {run.state} at step {run.last_step}. {run.message}\n"]
    if run.parent_run_id:
        parts.append(f"Forked from run {run.parent_run_id} at step {run.parent_step}.\n")
    columns = ("segment", "began", "first step", "last step", "code", "seed", "end", "")
    rows = [
        (s.number, _when(s.started_at), s.start_step, s.last_step, s.code_version, s.seed, s.end_reason, s.message)
        for s in segments
    ]
    parts += ["## Segments\n", _table(columns, rows)]
    if segments:
        parts += ["\n## Declared configuration of the newest segment\n"]
        parts += [_table(("field", "value"), list(runs.declared(run.id, segments[-1].number).items()))]
    events = [e for e in Timeline(database).list(run.id) if e.kind != TimelineKind.CHECKPOINT]
    parts += ["\n## What changed or happened\n"]
    parts += [_table(("segment", "step", "kind", "what"), [(e.segment, e.step, e.kind, e.title) for e in events])]
    return "\n".join(parts) + "\n"


def _case_page(knowledge: Knowledge, case: Investigation) -> str:
    verdict = f"{case.verdict} (scope: {case.scope})" if case.verdict else "not decided"
    parts = [f"# {case.title}\n", f"Case {case.id} of run {case.run_id}, {case.state}. Verdict: {verdict}."]
    parts += [f"{case.statement}\n"]
    found = knowledge.anomalies(investigation_id=case.id)
    anomalies = [(a.kind, f"{a.onset[0]}..{a.onset[1]}", a.statement) for a in found]
    suspects = [(s.rank, s.cause_kind, s.title, s.status or "", s.reason) for s in knowledge.suspects(case.id)]
    diagnostics = [(d.kind, d.label, d.run_id, d.measure, d.reading) for d in knowledge.diagnostics(case.id)]
    parts += ["## Found\n", _table(("kind", "onset", "what"), anomalies)]
    parts += ["\n## Suspects\n", _table(("rank", "cause", "what", "verdict", "reason"), suspects)]
    parts += ["\n## Re-runs\n", _table(("kind", "what", "run", "measure", "reading"), diagnostics)]
    for each in knowledge.verdicts(case.id):
        parts.append(f"\n## Verdict: {each.verdict} (scope: {each.scope}, {each.num_reruns} re-runs)\n")
        parts.append(f"{each.statement}\n\nWould be overturned by: {each.would_overturn}\n")
    report = knowledge.report(case.id)
    return "\n".join([*parts, "\n## Report\n", report] if report else parts) + "\n"


def _negatives_page(negatives: Negatives) -> str:
    parts = ["# What was tried and did not hold\n"]
    for found in negatives.list():
        parts += [
            f"## {found.id}. {found.claim}\n",
            f"- tried: {found.intervention}\n- expected: {found.expected}\n- seen: {found.observed}",
            f"- why not ({found.reason_class}): {found.reason}\n- again if: {found.reopen_if}",
            f"- evidence: {', '.join(map(str, found.evidence))}\n",
        ]
    return "\n".join(parts) + "\n"


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if not rows:
        return "None."
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(value: Any) -> str:
    text = repr(value) if isinstance(value, float) else "" if value is None else str(value)
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\r", " ").replace("\n", " ")


def _when(unix_s: float) -> str:
    return datetime.datetime.fromtimestamp(unix_s, tz=datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
