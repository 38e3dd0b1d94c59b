"""Deterministic operators: the changes of a scaffold that need no model.

They move a parameter, add or remove a mechanism (a file of the catalogue), a tool or a skill, or change the order of
mechanisms; of a scaffold that declares its own surface (declared.py) they make the moves that stand there. Which of
them is tried is drawn by weight; a cause that failed episodes show makes the moves that may bear on it more likely, by
`focus` of the scaffold's own proposer.json: how the scaffold proposes is part of it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loops.evolve.declared import declared
from loops.evolve.failures import Finding
from loops.evolve.surface import Files, params_of

CATALOGUE = Path(__file__).parent / "catalogue"
VALUES: Mapping[str, tuple[Any, ...]] = {
    "temperature": (0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5),
    "view_chars": (1500, 2000, 2500, 2900, 3200, 3450, 4200),
    "answer_chars": (150, 400, 1000),
    "retries": (0, 1, 2, 3, 5),
    "skills_for": ("all", "terminal"),
}
TOOLS = ("list_files", "read_file", "edit", "run_tests", "undo", "localise", "shell", "fit", "submit")
PROPOSER = {"focus": 2.0, "bundle": 2}
_BEARS_ON: Mapping[str, tuple[str, ...]] = {
    "repeats": ("loop_detection", "notes", "temperature"),
    "out of asks": ("verify", "prepare", "loop_detection", "countdown"),
    "housekeeping": ("verify", "prepare"),
    "lost": ("notes", "view_chars", "shorten", "skills_for"),
    "too long": ("view_chars", "cut", "shorten", "skills_for"),
    "temporary": ("retry", "retries"),
    "handed in early": ("skills", "tools", "temperature"),
    "crashed": ("mechanisms",),
}


@dataclass(frozen=True, kw_only=True)
class Move:
    """One elementary change. `what`: the parameter, mechanism, tool or skill; `after` its new value as JSON."""

    kind: str
    what: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.kind} {self.what} {self.after}".strip()


def proposer_of(files: Files) -> dict[str, Any]:
    """How this scaffold proposes: `focus` in [0, 8] and `bundle`, how many moves at once, from 1 to 3."""
    said = {**PROPOSER, **json.loads(files.get("proposer.json", "{}"))}
    return {**said, "focus": min(8.0, max(0.0, float(said["focus"]))), "bundle": min(3, max(1, int(said["bundle"])))}


def moves(files: Files) -> list[Move]:
    """Everything the operators could do to this scaffold, in a fixed order."""
    if (own := declared(files)) is not None:
        return [Move(kind=kind, what=what, after=after) for kind, what, after in own.options(files)]
    params = params_of(files)
    found = [
        Move(kind="set", what=name, after=json.dumps(value))
        for name, values in VALUES.items()
        for value in values
        if params.get(name) != value
    ]
    skills = sorted(path.stem for path in (CATALOGUE / "skills").glob("*.md"))
    mechanisms = sorted(path.stem for path in CATALOGUE.glob("*.py"))
    for kind, names, present in (
        ("mechanism", mechanisms, params["mechanisms"]),
        ("tool", TOOLS, params["tools"]),
        ("skill", skills, params["skills"]),
    ):
        found += [Move(kind=f"add {kind}", what=name, after="") for name in names if name not in present]
        found += [Move(kind=f"remove {kind}", what=name, after="") for name in present]
    found += [Move(kind="earlier", what=name, after="") for name in params["mechanisms"][1:]]
    return found


def apply(files: Files, move: Move) -> dict[str, str]:
    """The files after the move."""
    if (own := declared(files)) is not None:
        return own.changed(files, move.kind, move.what, move.after)
    after, params = dict(files), params_of(files)
    verb, _, kind = move.kind.partition(" ")
    group = f"{kind}s"
    if verb == "set":
        params[move.what] = json.loads(move.after)
    elif verb == "add":
        params[group] = [move.what, *params[group]] if kind == "mechanism" else [*params[group], move.what]
        for name, source in _files_of(kind, move.what).items():
            after.setdefault(name, source.read_text())
    elif verb == "remove":
        params[group] = [name for name in params[group] if name != move.what]
        for name in _files_of(kind, move.what):
            after.pop(name, None)
    else:
        order = params["mechanisms"]
        place = order.index(move.what)
        params["mechanisms"] = [*order[: place - 1], move.what, order[place - 1], *order[place + 1 :]]
    after["params.json"] = json.dumps(params, indent=2) + "\n"
    return after


def _files_of(kind: str, name: str) -> dict[str, Path]:
    if kind == "mechanism":
        return {f"mechanisms/{name}.py": CATALOGUE / f"{name}.py"}
    return {f"skills/{name}.md": CATALOGUE / "skills" / f"{name}.md"} if kind == "skill" else {}


def weights(
    options: Sequence[Move],
    findings: Sequence[Finding],
    focus: float,
    bears_on: Mapping[str, Sequence[str]] = _BEARS_ON,
) -> list[float]:
    """Kinds are equally likely however many moves they have; a move that bears on a finding gets more of its kind."""
    total = sum(len(each.traces) for each in findings) or 1
    sizes: dict[str, int] = {}
    for move in options:
        sizes[_family(move)] = sizes.get(_family(move), 0) + 1
    found = []
    for move in options:
        bearing = sum(len(each.traces) for each in findings if _bears(move, bears_on.get(each.cause, ()))) / total
        found.append((1.0 + 10.0 * focus * bearing) / sizes[_family(move)])
    return found


def _family(move: Move) -> str:
    return f"set {move.what}" if move.kind == "set" else move.kind


def _bears(move: Move, named: Sequence[str]) -> bool:
    return not move.kind.startswith("remove") and (move.what in named or f"{move.kind.rpartition(' ')[2]}s" in named)


def drawn(
    files: Files,
    findings: Sequence[Finding],
    settings: Mapping[str, Any],
    chance: random.Random,
    barred: Collection[str],
) -> list[Move]:
    """Up to `bundle` moves one after another; none whose name is barred. Empty when nothing is left."""
    chosen: list[Move] = []
    now: Files = files
    own = declared(files)
    bears_on = _BEARS_ON if own is None else own.bears_on
    for _ in range(max(1, int(settings["bundle"]))):
        options = [move for move in moves(now) if move.name not in barred and move not in chosen]
        if not options:
            break
        chances = weights(options, findings, float(settings["focus"]), bears_on)
        move = chance.choices(options, chances)[0]
        chosen.append(move)
        now = apply(now, move)
    return chosen


def placebo(files: Files, number: int) -> dict[str, str]:
    """A change that means nothing: another blank line's length in the prompt; the same files where there is none, or
    where the scaffold declares its own surface.
    """
    name = "prompts/system.md"
    if name not in files or declared(files) is not None:
        return dict(files)
    return {**files, name: files[name].rstrip("\n") + "\n" + " " * number + "\n"}


def mutated_proposer(settings: Mapping[str, Any], chance: random.Random) -> dict[str, Any]:
    """Strategy parameters vary with the candidate and survive with it (self-adaptation: Schwefel 1981)."""
    focus = min(8.0, max(0.0, float(settings["focus"]) * chance.choice((0.5, 1.0, 2.0))))
    return {"focus": round(focus, 3), "bundle": min(3, max(1, int(settings["bundle"]) + chance.choice((-1, 0, 1))))}
