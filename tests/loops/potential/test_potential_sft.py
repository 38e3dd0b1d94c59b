"""Tiny SFT: one recipe by content, the report's shares, the same bits again. Shows R801-4.2, R801-4.3."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from contracts.errors import UserInputError
from loops.evals.tasks import generated
from loops.potential.sft_recipe import SHARES, SftRecipe
from loops.potential.tiny_sft import Tuning, build_mix, tuned, tuned_config
from trainer.config import TrainConfig
from trainer.loader import NOTHING_READ
from trainer.recipe import Recipe
from trainer.training import TrainingState
from trainer.weights import initial_weights

RECIPE = SftRecipe(num_bytes=100_000, steps=8, marks=(0.5, 1.0))
CONFIG = TrainConfig().with_overrides(
    {"model.num_layers": 1, "model.d_model": 16, "moe.num_experts": 2, "moe.top_k": 1, "moe.d_expert": 8}
)


def state() -> TrainingState:
    return TrainingState(step=5, weights=initial_weights(CONFIG), optimizer={}, loader=NOTHING_READ)


def tuning(**fields: object) -> Tuning:
    return replace(Tuning(trained_by=Recipe(config=CONFIG), state=state(), checkpoint="c0"), **fields)


def test_shares_are_the_reports_within_a_tenth_of_a_point(tmp_path: Path) -> None:
    path, manifest = build_mix(replace(RECIPE, num_bytes=200_000), set(), tmp_path)
    assert SHARES == {"math": 0.316, "science": 0.316, "code": 0.316, "instruction": 0.052}
    assert all(abs(manifest.shares[group] - share) < 0.001 for group, share in SHARES.items())
    lines = path.read_text().splitlines()
    assert len(lines) == sum(manifest.num_examples.values())
    assert json.loads(lines[0])["prompt"].startswith("Question: ")


def test_no_test_question_is_learned(tmp_path: Path) -> None:
    avoid = {item.question for task in generated.tasks(40) for item in task.items}
    path, _ = build_mix(RECIPE, avoid, tmp_path)
    asked = {json.loads(line)["prompt"].removeprefix("Question: ").removesuffix("\nAnswer:") for line in path.open()}
    assert not asked & avoid


def test_shares_that_cannot_be_met_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="misses the share"):
        build_mix(replace(RECIPE, num_bytes=300), set(), tmp_path)


def test_equal_names_give_equal_bits_and_are_computed_once(tmp_path: Path) -> None:
    examples, manifest = build_mix(RECIPE, set(), tmp_path)
    first = tuned(RECIPE, tuning(), examples, tmp_path / "a", time.monotonic)
    again = tuned(RECIPE, tuning(), examples, tmp_path / "b", time.monotonic)
    assert [step for step, _ in first] == [4, 8]
    for (_, one), (_, other) in zip(first, again, strict=True):
        assert all(torch.equal(one.weights[name], other.weights[name]) for name in one.weights)
    folder = tmp_path / "a" / tuning().named(RECIPE, manifest.sha256)
    written = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    tuned(RECIPE, tuning(), examples, tmp_path / "a", time.monotonic)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == written


def test_seed_stage_and_checkpoint_name_another_result() -> None:
    each = (tuning(), tuning(seed=2), tuning(stage="a"), tuning(checkpoint="c1"))
    names = {one.named(RECIPE, "d") for one in each}
    assert len(names) == 4
    assert tuning().named(replace(RECIPE, lr_scale=0.3), "d") not in names
    assert tuning().named(RECIPE, "other data") not in names


def test_the_sft_does_not_depend_on_what_trained_the_checkpoint() -> None:
    other = CONFIG.with_overrides({"optim.experts.lr": 0.1, "moe.balance.coef": 0.5, "data.seq_len": 32})
    theirs = tuned_config(RECIPE, tuning(trained_by=Recipe(config=other))).config
    assert theirs == tuned_config(RECIPE, tuning()).config


def test_early_stages_get_more_epochs() -> None:
    recipe = replace(RECIPE, epochs={"stage1-1": 2})
    assert recipe.marks_in("stage1-1") == (8, 16)
    assert recipe.marks_in("stage1-2") == (4, 8)
