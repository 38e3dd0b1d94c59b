"""What a case may say whose measurements were cut short: nothing that was paid for is thrown away."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from loops.potential.figures import draw
from loops.potential.plan import PotentialPlan
from loops.potential.reading import reading
from loops.potential.report import markdown

RNG = np.random.default_rng(0)


def digits(count: int = 10) -> str:
    return "".join(RNG.choice(["0", "1"], count))


def fan() -> dict[str, Any]:
    names = ("ppl_acc_norm", "0_shot_direct")
    return {name: {"items": digits(), "score": 50.0, "unparsed": 0.0, "raw": "f"} for name in names}


def base(step: int) -> dict[str, Any]:
    return {"step": step, "tokens": 100 * step, "score": 40.0 + RNG.random(), "chance": 25.0, "raw": "f", "fan": fan(),
            "bits_per_byte": {"bits_code": 5.0}, "items": {"add": digits()}, "findings": []}  # fmt: skip


def tuned(step: int, seed: int) -> dict[str, Any]:
    marks = [{"sft_step": mark, "score": 40.0 + mark + RNG.random(), "raw": "f"} for mark in (4, 8, 16, 32)]
    return {"step": step, "seed": seed, "score": 50.0 + RNG.random(), "raw": "f", "fan": fan(), "marks": marks}


STEPS = (10, 20, 30, 40)
BASES = [base(step) for step in STEPS]


def test_one_piece_of_a_third_seed_does_not_cost_the_other_two() -> None:
    found = reading(BASES, [*(tuned(step, seed) for seed in (1, 2) for step in STEPS), tuned(10, 3)])
    assert found is not None
    assert (found["steps"], found["seeds"]) == ([10, 20, 30, 40], [1, 2])


def test_two_seeds_come_before_more_checkpoints_and_these_before_a_third_seed() -> None:
    pieces = [*(tuned(step, 1) for step in STEPS), tuned(10, 2), tuned(40, 2)]
    found = reading(BASES, pieces)
    assert found is not None
    assert (found["steps"], found["seeds"]) == ([10, 40], [1, 2])
    found = reading(BASES, [*(tuned(step, seed) for seed in (1, 2) for step in STEPS), tuned(10, 3), tuned(40, 3)])
    assert found is not None
    assert (found["steps"], found["seeds"]) == ([10, 20, 30, 40], [1, 2])


def test_ranks_are_told_of_each_stage_too() -> None:
    steps = range(10, 130, 10)
    bases = [base(step) | {"stage": "one" if step < 70 else "two"} for step in steps]
    found = reading(bases, [tuned(step, seed) for seed in (1, 2) for step in steps])
    assert found is not None
    by_stage = found["ranks"]["by_stage"]
    assert [by_stage[name]["spearman"]["num_checkpoints"] for name in ("one", "two")] == [6, 6]
    text = markdown(PotentialPlan(run_id="r", steps=tuple(steps)), found)
    assert "- stage two: Spearman rho" in text
    assert reading(BASES, [tuned(step, seed) for seed in (1, 2) for step in STEPS])["ranks"]["by_stage"] == {}


def test_too_little_is_no_reading() -> None:
    assert reading(BASES, [tuned(step, 1) for step in STEPS]) is None  # one seed: no noise to be judged by
    assert reading(BASES, [tuned(10, 1), tuned(10, 2)]) is None
    assert reading(BASES, []) is None
    assert reading([], []) is None


def test_the_last_step_is_the_last_one_whatever_order_the_store_gives_back(tmp_path: Path) -> None:
    """As text, "90" comes behind "100"."""
    bases = [base(step) for step in (90, 100, 110)]
    found = reading(bases, [tuned(step, seed) for seed in (1, 2) for step in (90, 100, 110)])
    assert found is not None
    found = json.loads(json.dumps(found))
    kept = ("maximum", "maximum_sft", "maximum_by_task", "maximum_by_task_sft", "learnability")
    stored = found | {key: dict(sorted(found[key].items())) for key in kept}
    assert list(stored["maximum"]) == ["100", "110", "90"]
    plan = PotentialPlan(run_id="run", steps=(90, 100, 110))
    assert markdown(plan, stored) == markdown(plan, found)
    for name, body in (("stored", stored), ("found", found)):
        draw(body, tmp_path / name)
    assert _shapes(tmp_path / "stored") == _shapes(tmp_path / "found")


def _shapes(file: Path) -> list[str]:
    """Lines and texts of a drawing, without the ids that differ each time."""
    text = re.sub(r'(id|href|clip-path)="[^"]*"', "", file.read_text())
    return [line for line in text.splitlines() if "<path" in line or "<!--" in line]
