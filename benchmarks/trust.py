"""Can the control plane be trusted? Crashes, forged approvals, budgets, growth and load, each counted from outside.

    python -m benchmarks.trust --json [--only kills|attacks|budget|growth|load] [--work FOLDER]

kills    SIGKILL of the API, the worker, the shipper, the graph runner, the dual loop and Postgres while debug loops,
         dual loops and effects are under way: `lost`, `repeated_effects`, `different_outcomes`, `resume_p99_s`
attacks  on approvals, at every door, each file with an honest way that works: `bypasses`, `attacks`
budget   random trees of budgets with parallel spenders against a model: `overspends`
growth   of the database after 100 rounds of a loop: `state_growth_mb`
load     200 mixed requests a second beside a training that logs: `api_p99_ms`, `api_errors`, `lost_points`

`--work` keeps what the kills found, so that a long storm goes on where it was. Attacks from outside: `--attacks DIR`,
files as described in benchmarks/trust_attacks/README.md. Shows RM2-7.15, RM2-7.18, RM2-7.20 to RM2-7.22, R801-2.13.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.place import work_folder
from control_plane.logging import configure_logging


@dataclass(frozen=True, kw_only=True)
class Goal:
    """`value` is the most, or with `at_least` the least, that meets it."""

    value: float
    at_least: bool = False

    def is_met(self, found: float) -> bool:
        return found >= self.value if self.at_least else found <= self.value

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.value:g}"


NONE = Goal(value=0)
GOALS: Mapping[str, Goal] = {
    "lost": NONE,
    "repeated_effects": NONE,
    "different_outcomes": NONE,
    "resume_p99_s": Goal(value=3.0),
    "bypasses": NONE,
    "attacks": Goal(value=200, at_least=True),
    "attacks_broken": NONE,
    "controls_failed": NONE,
    "overspends": NONE,
    "budget_differences": NONE,
    "state_growth_mb": Goal(value=5.0),
    "api_p99_ms": Goal(value=250.0),
    "api_errors": NONE,
    "lost_points": NONE,
}


def kills(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.trust_kills.measure import measure

    return measure(folder, options.kills, options.seed)


def attacks(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.trust_attacks.runner import measure

    return measure(folder, options.attacks, options.attack)


def budget(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.trust_parts.budget import measure

    return measure(folder, options.trees, options.seed)


def growth(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.trust_parts.growth import measure

    return measure(folder, options.rounds)


def load(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.trust_load.load import measure

    return measure(folder, options.seconds, options.per_second, options.seed)


PARTS: Mapping[str, Callable[[Path, argparse.Namespace], dict[str, Any]]] = {
    "attacks": attacks,
    "budget": budget,
    "growth": growth,
    "load": load,
    "kills": kills,
}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--only", choices=tuple(PARTS), action="append", help="one part; repeat it")
    parser.add_argument("--work", type=Path, help="a folder that is kept, for storms that go on")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--attacks", type=Path, action="append", default=[], help="a folder with more attacks")
    parser.add_argument("--attack", default="", help="only attack files with this in their name")
    parser.add_argument("--trees", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0, help="of load")
    parser.add_argument("--per-second", type=float, default=200.0, help="requests under load")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    configure_logging("error", as_json=False)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # in order: no process of ours stays behind
    figures: dict[str, Any] = {"load_before": round(os.getloadavg()[0], 2)}
    for name in options.only or PARTS:
        with work_folder(options.work / name if options.work else None) as folder:
            figures |= PARTS[name](folder, options)
    figures["missed"] = [key for key, goal in GOALS.items() if key in figures and not goal.is_met(figures[key])]
    for key, goal in GOALS.items():
        if key in figures:
            sys.stdout.write(f"{key:20} {figures[key]:<10} goal {goal}\n")
    if options.json:
        sys.stdout.write(json.dumps(figures) + "\n")
    raise SystemExit(1 if figures["missed"] else 0)


if __name__ == "__main__":
    main()
