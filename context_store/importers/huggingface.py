"""Hugging Face `trainer_state.json`. Each checkpoint repeats the history before it; there is no clock.

Told apart: a history that is the beginning of another is the same run; one in the same folder that leaves the other
halfway is a restart from there; in another folder it is a fork when it leaves right at a checkpoint, else a re-run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from context_store.importers.collector import Collector
from context_store.importers.configs import flat, read_mapping
from context_store.importers.formats import Format, Source, Tree, head, listing
from context_store.importers.items import Ended, Fact, FoundRun, FoundSegment, Items, Problem
from contracts.enums import RunState, TimelineKind

_CHECKPOINT = re.compile(r"checkpoint-(\d+)$")
_EVAL = re.compile(
    r"^(eval|test|predict)_(?:(?P<group>.+)_)?(?P<metric>loss|accuracy|f1|perplexity|bleu|runtime"
    r"|samples_per_second|steps_per_second)$"
)
_PLAN = ("max_steps", "num_train_epochs", "train_batch_size", "logging_steps", "eval_steps", "save_steps")
_STATE = "trainer_state.json"
_HISTORY = b'"log_history"'
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class State:
    """One file, as far as it can be read."""

    path: Path
    folder: Path  # of the run: above checkpoint-N
    fields: dict[str, Any]
    history: list[Row]

    @property
    def step(self) -> int:
        logged: list[int] = [row["step"] for row in self.history]
        return max(int(self.fields.get("global_step") or 0), *logged)


@dataclass(kw_only=True)
class Part:
    """A stretch of rows that one start or resume logged: those of `state` from `begin` on."""

    state: State
    begin: int
    start_step: int


@dataclass(kw_only=True)
class Run:
    parts: list[Part]
    note: str = ""
    parent: Run | None = None
    parent_step: int | None = None
    files: list[Path] = field(default_factory=list)

    @property
    def newest(self) -> State:
        return self.parts[-1].state


def find(tree: Tree) -> list[Source]:
    files = [path for path in tree.files if path.suffix == ".json" and _is_state(path)]
    beside = [beside for path in files if (beside := path.with_name("config.json")).is_file()]
    return [Source(files=tuple(files), companions=(*beside, *_siblings(files, tree)))] if files else []


def read(source: Source) -> Items:
    states: list[State] = []
    for path in (*source.files, *filter(_is_state, source.companions)):
        state, problem = _load(path)
        if problem is not None:
            yield problem
        if state is not None:
            states.append(state)
    for run in _runs(states):
        if set(run.files) & set(source.files):
            yield from _run(run)


def _siblings(files: Sequence[Path], tree: Tree) -> list[Path]:
    """States of the same folder beside those that were given alone: a restart only shows beside what it left."""
    known, found = set(files), []
    alone = [path for path in files if path.name == _STATE or _CHECKPOINT.search(path.parent.name)]
    for folder in sorted({_folder(path) for path in alone}):
        if not (tree.root.is_dir() and folder.is_relative_to(tree.root)):
            checkpoints = [path / _STATE for path in listing(folder) if _CHECKPOINT.search(path.name)]
            inside = [*checkpoints, folder / _STATE]
            found += [path for path in inside if path not in known and path.is_file()]
    return found


def _is_state(path: Path) -> bool:
    return path.name.endswith(_STATE) or _HISTORY in head(path)[:4096]


def _folder(path: Path) -> Path:
    """Of the run: above checkpoint-N."""
    return path.parent.parent if _CHECKPOINT.search(path.parent.name) else path.parent


# --- reading one file


def _load(path: Path) -> tuple[State | None, Problem | None]:
    folder = _folder(path)
    problem = None
    try:
        text = path.read_bytes().decode("utf-8-sig")
        fields = json.loads(text)
        if not isinstance(fields, dict) or not isinstance(fields.get("log_history"), list):
            return None, Problem(file=str(path), position="the top level", what="no log_history in it")
        history = fields.pop("log_history")
    except json.JSONDecodeError as error:
        fields, history = {}, _salvage(text)
        kept = f"the first {len(history)} rows were kept" if history else "nothing could be kept"
        problem = Problem(
            file=str(path), position=f"line {error.lineno}, column {error.colno}", what=f"damaged; {kept}"
        )
    except (OSError, UnicodeDecodeError) as error:
        return None, Problem(file=str(path), position="the file", what=str(error))
    rows = [row for row in history if isinstance(row, dict) and _is_step(row.get("step"))]
    if len(rows) < len(history):
        what = f"{len(history) - len(rows)} rows of the history have no step"
        problem = problem or Problem(file=str(path), position="log_history", what=what)
    return State(path=path, folder=folder, fields=fields, history=rows) if rows else None, problem


def _salvage(text: str) -> list[Any]:
    """The rows before the damage."""
    start = text.find("[", text.find('"log_history"'))
    rows: list[Any] = []
    decoder, position = json.JSONDecoder(), start + 1
    while start >= 0:
        match = re.compile(r"[\s,]*").match(text, position)
        position = match.end() if match else position
        try:
            row, position = decoder.raw_decode(text, position)
        except ValueError:
            break
        rows.append(row)
    return rows


# --- which files are one run


def _runs(states: Sequence[State]) -> list[Run]:
    runs: list[Run] = []
    for state in sorted(states, key=lambda s: (str(s.folder), s.step, s.path.stat().st_mtime, str(s.path))):
        if not any(_join(run, state) for run in runs):
            run = Run(parts=[Part(state=state, begin=0, start_step=0)], files=[state.path])
            _relate(run, runs)
            runs.append(run)
    return runs


def _join(run: Run, state: State) -> bool:
    """Take the state into the run when it continues it."""
    known = run.newest
    same = _common(known.history, state.history)
    if known.folder != state.folder or same == 0:
        return False
    if same == len(known.history):
        if _plan(known) == _plan(state) or not known.fields:
            run.parts[-1].state = state
        else:
            run.parts.append(Part(state=state, begin=same, start_step=known.step))
    elif same < len(state.history):
        run.parts.append(Part(state=state, begin=same, start_step=_resumed_at(state, same)))
    run.files.append(state.path)
    return True


def _relate(run: Run, others: Sequence[Run]) -> None:
    """A fork or a re-run of a run in another folder."""
    state = run.newest
    for other in others:
        same = _common(other.newest.history, state.history)
        if same == 0 or other.newest.folder == state.folder:
            continue
        step = state.history[same - 1]["step"]
        save_steps = state.fields.get("save_steps") or 0
        at_checkpoint = isinstance(save_steps, int) and save_steps > 0 and step % save_steps == 0
        if at_checkpoint and same < min(len(state.history), len(other.newest.history)):
            run.parent, run.parent_step = other, step
            run.parts[0].begin, run.parts[0].start_step = same, step
        else:
            run.note = f"its first {same} rows equal those of {other.newest.path}: a re-run or a copy, not a resume"
        return


def _common(a: Sequence[Row], b: Sequence[Row]) -> int:
    """How many first rows are equal; NaN equals NaN."""
    for index, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right and json.dumps(left, sort_keys=True) != json.dumps(right, sort_keys=True):
            return index
    return min(len(a), len(b))


def _resumed_at(state: State, same: int) -> int:
    """The last checkpoint at or before the last common row."""
    step = int(state.history[same - 1]["step"])
    save_steps = state.fields.get("save_steps")
    return step - step % save_steps if isinstance(save_steps, int) and 0 < save_steps <= step else step


def _plan(state: State) -> dict[str, Any]:
    return {key: state.fields.get(key) for key in _PLAN}


# --- items of one run


def _run(run: Run) -> Items:
    first, newest = run.parts[0].state, run.newest
    names = {name: ours for row in newest.history for name in row if (ours := _named(name)) != name}
    yield FoundRun(
        key=_key(run),
        name=_name(first),
        project=_project(first),
        origin=str(first.folder if _CHECKPOINT.search(first.path.parent.name) else first.path),
        parent=(_name(run.parent.parts[0].state), _key(run.parent)) if run.parent else None,
        parent_step=run.parent_step,
        names=names | {"train_loss": "train_loss"},  # the mean over the whole training, logged once at its end
    )
    for number, part in enumerate(run.parts):
        end = None if number == len(run.parts) - 1 else RunState.STOPPED
        yield from _segment(number, part, end)
    if run.note:
        yield Fact(step=0, kind=TimelineKind.NOTE, title=run.note[:200], detail={"note": run.note})


def _segment(number: int, part: Part, end: RunState | None) -> Items:
    state = part.state
    model = _model_config(state)
    config = {key: value for key, value in flat(_plan(state)).items() if value is not None}
    yield FoundSegment(
        number=number,
        start_step=part.start_step,
        config=config | model,
        start=_digest(state.history[part.begin]) if part.begin < len(state.history) else "",
        origin=str(state.path),
        start_checkpoint=f"checkpoint-{part.start_step}" if part.start_step else "",
    )
    collector = Collector()
    masked: list[int] = []
    for row in state.history[part.begin :]:
        collector.add(row["step"], {k: float(v) for k, v in row.items() if k != "step" and _is_number(v)})
        norm = row.get("grad_norm")
        if row.get("loss") == 0.0 and isinstance(norm, float) and norm != norm:
            masked.append(row["step"])
        if collector.is_full:
            yield from collector.take()
    yield from collector.take()
    yield from _facts(state, masked)
    yield _ended(state) if end is None else Ended(state=end, message="went on from a checkpoint")


def _facts(state: State, masked: Sequence[int]) -> Iterator[Fact]:
    if masked:
        title = f"the loss reads 0.0 at {len(masked)} steps whose gradient norm is NaN: it hides a NaN"
        detail = {"steps": list(masked[:50]), "why": "logging_nan_inf_filter replaces NaN losses"}
        yield Fact(step=masked[0], kind=TimelineKind.NOTE, title=title, detail=detail)
    if state.fields.get("best_metric") is not None:
        step = state.fields.get("best_global_step") or _step_of(state.fields.get("best_model_checkpoint"))
        best: dict[str, Any] = {key: state.fields.get(key) for key in ("best_metric", "best_model_checkpoint")}
        title = f"best metric so far {state.fields['best_metric']}"
        yield Fact(step=step or state.step, kind=TimelineKind.EVAL, title=title, detail=best)


def _ended(state: State) -> Ended:
    control = state.fields.get("stateful_callbacks", {}).get("TrainerControl", {}).get("args", {})
    planned = state.fields.get("max_steps") or 0
    if (
        (planned and state.step >= planned)
        or control.get("should_training_stop")
        or "train_runtime" in state.history[-1]
    ):
        return Ended(state=RunState.COMPLETED)
    plan = f" of {planned} planned" if planned else ""
    return Ended(state=RunState.STOPPED, message=f"the last state is that of step {state.step}{plan}")


def _named(name: str) -> str:
    match = _EVAL.match(name)
    if match is None or match["group"] is None:
        return name
    return f"{match[1]}_{match['metric']}/{match['group']}"


def _digest(row: Row) -> str:
    return hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()[:16]


def _name(state: State) -> str:
    if _CHECKPOINT.search(state.path.parent.name):
        return state.folder.name
    return state.path.name.removesuffix(".json").removesuffix("trainer_state").strip(".") or state.folder.name


def _project(state: State) -> str:
    return state.folder.parent.name if _CHECKPOINT.search(state.path.parent.name) else state.folder.name


def _key(run: Run) -> str:
    """Folder, plan and the first row: what stays while checkpoints come and go."""
    first = run.parts[0].state
    place = first.folder if _CHECKPOINT.search(first.path.parent.name) else first.path
    return json.dumps([str(place.resolve()), _plan(first), first.history[0]], sort_keys=True)


def _model_config(state: State) -> dict[str, Any]:
    path = state.path.with_name("config.json")
    try:
        return flat(read_mapping(path), "model.") if path.exists() else {}
    except (OSError, ValueError):
        return {}


def _step_of(checkpoint: Any) -> int | None:
    match = _CHECKPOINT.search(str(checkpoint or ""))
    return int(match[1]) if match else None


def _is_step(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


FORMAT = Format(name="Hugging Face trainer state", find=find, read=read)
