"""Written-down lessons as JSON lines: ideas that did not work, and incidents with their proven cause or none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from context_store.importers.configs import flat
from context_store.importers.formats import Format, Source, Tree, head
from context_store.importers.items import Fact, FoundNegative, FoundRun, FoundSegment, Items, Problem
from context_store.importers.lines import read_lines
from contracts.enums import TimelineKind

_IDEA, _INCIDENT = {"idea", "outcome", "reason"}, {"symptom", "proven_cause", "cause_kind"}
_HELD = {"adopted", "kept", "accepted"}
_NOT_PROVABLE = "not provable"


def find(tree: Tree) -> list[Source]:
    return [Source(files=(path,)) for path in tree.files if path.suffix in (".jsonl", ".ndjson") and _is_lessons(path)]


def read(source: Source) -> Items:
    path = source.files[0]
    yield FoundRun(key=str(path.resolve()), name=path.stem, project=path.resolve().parent.name, origin=str(path))
    yield FoundSegment(number=0, start_step=0, config={"x_axis": "number of the entry"})
    number = 0
    for line in read_lines(path, growing=source.growing):
        if isinstance(line, Problem):
            yield line
            continue
        if not line.text.strip():
            continue
        try:
            row = json.loads(line.text)
            number += 1
            yield from _idea(row, number) if row.keys() >= _IDEA else _incident(row, number)
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            yield Problem(file=str(path), position=f"line {line.number}", what=f"no lesson: {error}"[:300])


def _is_lessons(path: Path) -> bool:
    first = head(path).partition(b"\n")[0]
    try:
        row = json.loads(first)
    except ValueError:
        return False
    return isinstance(row, dict) and (row.keys() >= _IDEA or row.keys() >= _INCIDENT)


def _idea(row: Mapping[str, Any], number: int) -> Items:
    title = f"{row.get('id', number)}: {row['idea']}"
    fact = Fact(step=number, kind=TimelineKind.NOTE, title=title, detail=dict(row), at=_at(row.get("date")))
    if str(row["outcome"]).lower() in _HELD:
        yield fact
        return
    known = {key: row[key] for key in ("id", "date", "comparability_era", "numbers") if key in row}
    scale = row.get("scale") or ""
    yield FoundNegative(
        fact=fact,
        claim=str(row["idea"]),
        intervention=str(row["idea"]),
        observed=json.dumps(row.get("numbers", {}), ensure_ascii=False) + f"; {row['outcome']}",
        reason_class=f"{row['outcome']}: {row.get('decided_by', '')}".strip(": "),
        reason=str(row["reason"]),
        reopen_if=str(row.get("revisit_if") or ""),
        context=flat(known),
        scale=", ".join(map(str, scale)) if isinstance(scale, list) else str(scale),
        code_version=str(_source(row).get("commit") or ""),
        effect=_effect(row.get("numbers")),
    )


def _incident(row: Mapping[str, Any], number: int) -> Items:
    """The incident as a note; what was tried against it in vain as negative results."""
    title = f"incident {row.get('id', number)}: {row['symptom']}"
    known = not str(row["proven_cause"]).lower().startswith(_NOT_PROVABLE)
    detail = {**row, "outcome": str(row["cause_kind"]) if known else _NOT_PROVABLE}
    fact = Fact(step=number, kind=TimelineKind.NOTE, title=title, detail=detail, at=_at(row.get("date")))
    yield fact
    for tried in row.get("negative_results", []):
        yield FoundNegative(
            fact=fact,
            claim=f"{tried['tried']} explains or repairs: {row['symptom']}",
            intervention=str(tried["tried"]),
            observed=str(tried["why_it_failed"]),
            reason_class="did_not_help",
            reason=str(tried["why_it_failed"]),
            context={"incident": str(row.get("id", number)), "cause_kind": str(row["cause_kind"])},
        )


def _at(date: object) -> float:
    """Unix seconds of an ISO date or time, in UTC unless it says otherwise; 0.0 for anything else."""
    try:
        found = datetime.fromisoformat(str(date))
    except ValueError:
        return 0.0
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _source(row: Mapping[str, Any]) -> Mapping[str, Any]:
    source = row.get("source")
    return source if isinstance(source, Mapping) else {}


def _effect(numbers: Any) -> tuple[str, float, float] | None:
    """The first quantity that is given as a pair [before, after]."""
    for name, value in numbers.items() if isinstance(numbers, Mapping) else ():
        if isinstance(value, list) and len(value) == 2 and all(isinstance(each, int | float) for each in value):
            return str(name), float(value[0]), float(value[1])
    return None


FORMAT = Format(name="written lessons", find=find, read=read)
