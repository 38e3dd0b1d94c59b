"""What the detailed diagnostics and the model's options cost, one JSON object as the last line.

Two trainings of the small model step in turns in one process on one thread, one with `diagnostics.detail_every`, one
without; their losses are checked equal first. Each round is `--cadence` steps of both, in alternating order; figures
are medians over the rounds of paired ratios of process time. Refuses to begin on a busy machine.

    detail_overhead    share of the step's time that the detail costs at the cadence (goal: under 0.03)
    lap_share          share of a detailed step's time that its named parts account for
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

from kernels.measure import refuse_a_busy_machine
from trainer.config import TrainConfig
from trainer.corpus import load_corpus
from trainer.recipe import Recipe
from trainer.session import keep_freed_memory, make_deterministic
from trainer.training import Training

GOAL = 0.03


def measure(num_rounds: int, cadence: int) -> dict[str, Any]:
    plain, detailed = _training(0), _training(cadence)
    if _losses(plain, 2 * cadence) != _losses(detailed, 2 * cadence):
        raise SystemExit("the detailed training computes something else")
    ratios = []
    for number in range(num_rounds):
        pair = (plain, detailed) if number % 2 else (detailed, plain)
        seconds = {id(training): _seconds(training, cadence) for training in pair}
        ratios.append(seconds[id(detailed)] / seconds[id(plain)])
    values = _last(detailed, cadence)
    laps = {name: value for name, value in values.items() if name.startswith("step_time_s/")}
    overhead = statistics.median(ratios) - 1.0
    return {
        "detail_overhead": overhead,
        "quartiles": [quartile - 1.0 for quartile in statistics.quantiles(ratios, n=4)],
        "cadence": cadence,
        "num_rounds": num_rounds,
        "lap_share": sum(laps.values()) / values["step_time_s"],
        "laps_s": laps,
        "num_series": len(values),
        "goal": GOAL,
        "is_met": overhead < GOAL,
    }


def _training(detail_every: int) -> Training:
    config = TrainConfig().with_overrides({"diagnostics.detail_every": detail_every})
    return Training(Recipe(config=config), load_corpus(config.data.corpus_bytes), None, time.perf_counter)


def _losses(training: Training, num_steps: int) -> list[float]:
    return [training.advance().values["loss"] for _ in range(num_steps)]


def _last(training: Training, num_steps: int) -> dict[str, float]:
    return dict([training.advance().values for _ in range(num_steps)][-1])


def _seconds(training: Training, num_steps: int) -> float:
    started = time.process_time()
    for _ in range(num_steps):
        training.advance()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.trainer_detail")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--cadence", type=int, default=10, help="steps between two detailed ones")
    arguments = parser.parse_args()
    refuse_a_busy_machine()
    make_deterministic(1)
    keep_freed_memory()
    found = measure(arguments.rounds, arguments.cadence)
    if not arguments.json:
        sys.stdout.write(f"detail costs {100 * found['detail_overhead']:.1f} % every {arguments.cadence} steps\n")
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
