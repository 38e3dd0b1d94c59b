"""Continued pretraining in phases, judged by a codebase that no phase reads."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from small_training import small_config
from torch import Tensor

import trainer
from trainer.config import TrainConfig
from trainer.held_out import held_out_curve, held_out_loss, loss_by_position
from trainer.plan import plan_lines
from trainer.recipes.continued_pretraining import recipe
from trainer.weights import initial_weights

TEXT = np.frombuffer((Path(trainer.__file__).parent / "model.py").read_bytes()[:2500], dtype=np.uint8)
TINY = {
    "model.num_layers": 2, "model.d_model": 32, "model.num_heads": 2, "model.num_kv_heads": 1, "moe.d_expert": 16,
    "data.corpus_bytes": 200_000, "stages.main.steps": 60, "stages.long.steps": 8, "stages.sft.steps": 8,
}  # fmt: skip


def test_phases_lower_the_loss_on_a_held_out_codebase(tmp_path: Path) -> None:
    """Main length, long context, SFT in one run; the loss falls while the main phase reads (shows RC2-3.1, RC2-3.2)."""
    examples = tmp_path / "tasks.jsonl"
    tasks = [{"prompt": f"def add_{n}(x):\n", "answer": f"    return x + {n}\n"} for n in range(40)]
    examples.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    phases = recipe().with_overrides(TINY | {"stages.sft.data.examples": str(examples)})
    ends: dict[str, float] = {}

    def at_end(phase: str, config: TrainConfig, weights: Mapping[str, Tensor]) -> None:
        ends[phase] = held_out_loss(config, weights, TEXT, 64)

    clock = itertools.count().__next__
    points = [*held_out_curve(phases, TEXT, every=20, seq_len=64, clock=clock, at_end=at_end)]
    assert ends == {point.stage: point.loss for point in points}
    assert [(point.stage, point.step) for point in points] == [
        ("main", 0), ("main", 20), ("main", 40), ("main", 60), ("long", 68), ("sft", 76),
    ]  # fmt: skip
    assert [point.tokens for point in points] == [0, 10_240, 20_480, 30_720, 34_816, 38_912]
    assert all(later.loss < earlier.loss - 0.02 for earlier, later in itertools.pairwise(points[:4]))
    assert abs(points[0].loss - math.log(256)) < 0.2, "it knows nothing at first"
    main, long, sft = phases.plan()
    assert long.config.data.seq_len == 8 * main.config.data.seq_len
    assert (long.resets_optimizer, sft.resets_optimizer) == (False, True)
    lines = [*plan_lines(phases)]
    assert sum("coding tasks" in line for line in lines) == 1
    assert "  mixture: answers 100%" in lines


def test_held_out_loss_is_a_mean_over_tokens() -> None:
    """Whatever rows are read together, and whatever the training's own data and ranks are."""
    config = small_config()
    weights = initial_weights(config)
    whole = held_out_loss(config, weights, TEXT[:641], 16)
    halves = [held_out_loss(config, weights, part, 16) for part in (TEXT[:321], TEXT[320:641])]
    assert abs(whole - sum(halves) / 2) < 1e-6
    other = config.with_overrides({"data.seq_len": 32, "parallel.dp_size": 4})
    assert held_out_loss(other, weights, TEXT[:641], 16) == whole
    by_position = loss_by_position(config, weights, TEXT[:641], 16)
    assert by_position.shape == (16,)
    assert abs(by_position.mean() - whole) < 1e-5
