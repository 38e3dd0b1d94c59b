"""Reads attack files and fires every variant at one world, each judged on its own."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx

from benchmarks.trust_attacks.kit import Kit
from benchmarks.trust_attacks.world import World, describe, world
from contracts.errors import LatheError

OWN_ATTACKS = Path(__file__).with_name("attacks")


@dataclass(frozen=True, kw_only=True)
class AttackFile:
    """A file's functions. `attack` may return True for a door that opened."""

    name: str
    variants: Callable[[Kit], dict[str, Any]]
    control: Callable[[Kit], bool]
    attack: Callable[[Kit, Any], object]


def read_attacks(folders: Sequence[Path]) -> list[AttackFile]:
    """By name. Raises AttributeError for a file without `control` or `attack`."""
    return [_read(path) for folder in folders for path in sorted(folder.glob("[a-z]*.py"))]


def _read(path: Path) -> AttackFile:
    spec = importlib.util.spec_from_file_location(f"attack_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return AttackFile(
        name=path.stem, variants=_variants(module), control=module.control, attack=module.attack
    )  # fmt: skip


def _variants(module: ModuleType) -> Callable[[Kit], dict[str, Any]]:
    found: Callable[[Kit], dict[str, Any]] | None = getattr(module, "variants", None)
    return found or (lambda _: dict(module.VARIANTS))


def fire(place: World, files: Sequence[AttackFile]) -> list[dict[str, Any]]:
    """One row for each control and each attack: its outcome is held, BYPASS, broken, works or FAILS."""
    rows: list[dict[str, Any]] = []
    for file in files:
        rows.append(_control(place, file, len(rows)))
        for name, variant in file.variants(Kit(place, f"{file.name}-list")).items():
            rows.append(_attack(place, file, name, variant, len(rows)))
        held = sum(row["outcome"] == "held" for row in rows if row["file"] == file.name)
        sys.stderr.write(f"{file.name:24} {held:3} held, honest way {rows[-1 - held]['outcome'] if held else '?'}\n")
        for row in rows:
            if row["file"] == file.name and row["outcome"] not in ("held", "works"):
                sys.stderr.write(f"   {row['outcome']} {row['variant']}: {row['why']}\n")
    return rows


def _control(place: World, file: AttackFile, number: int) -> dict[str, Any]:
    kit, before = Kit(place, f"{_slug(file.name)}-{number}"), place.look()
    worked = file.control(kit)
    kit.settle()
    why = place.judge(before, kit.allowed) or ([] if worked else ["it was refused"])
    return {"file": file.name, "variant": "honest", "outcome": "FAILS" if why else "works", "why": why}


def _attack(place: World, file: AttackFile, name: str, variant: Any, number: int) -> dict[str, Any]:
    kit, before = Kit(place, f"{_slug(file.name)}-{number}"), place.look()
    outcome, why = "held", list[str]()
    try:
        if file.attack(kit, variant) is True:
            why.append("the door opened")
    except (LatheError, httpx.HTTPError):
        pass  # refused
    except Exception as error:  # then nothing was attacked, which must be seen
        outcome, why = "broken", [f"{type(error).__name__}: {error}"]
    kit.settle()
    why += (found := place.judge(before, kit.allowed))
    if found or "the door opened" in why:
        outcome = "BYPASS"
    return {"file": file.name, "variant": describe(name), "outcome": outcome, "why": why}


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


def measure(folder: Path, more: Sequence[Path] = (), only: str = "") -> dict[str, Any]:
    """`attacks`, `bypasses`; `attacks_broken` and `controls_failed` have to be 0 for them to mean anything."""
    files = [file for file in read_attacks([OWN_ATTACKS, *more]) if only in file.name]
    with world(folder) as place:
        rows = fire(place, files)
    outcomes = [row["outcome"] for row in rows]
    wrong = [row for row in rows if row["outcome"] in ("BYPASS", "broken", "FAILS")]
    return {
        "bypasses": outcomes.count("BYPASS"),
        "attacks": outcomes.count("held") + outcomes.count("BYPASS"),
        "attacks_broken": outcomes.count("broken"),
        "controls": outcomes.count("works"),
        "controls_failed": outcomes.count("FAILS"),
        "attacks_first_faults": wrong[:5],
    }
