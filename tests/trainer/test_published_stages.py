"""The published plan: five stages that really run, scaled down, and how often its sources are read."""

from __future__ import annotations

import itertools

import pytest

from trainer import Recipe, Stage, TrainConfig
from trainer.plan import plan_lines
from trainer.recipes import five_stages, published
from trainer.repeats import repeats
from trainer.staged import StagedTraining


def test_all_five_stages_run_scaled_down() -> None:
    """Shows R801-7.3, R801-7.4: length, base, rate, state and penalties at each switch; the loss goes on over them."""
    training = StagedTraining(five_stages.recipe(), None, itertools.count(0.0).__next__)
    records = []
    while not records or training.ends_stage_early or training.step < 87:
        records.append(training.advance())
    stages = {r.step: r.effective for r in records if "stage.name" in r.effective}
    assert {step: facts["stage.name"] for step, facts in stages.items()} == {
        1: "Stage1-1", 43: "Stage1-2", 49: "Stage1-3", 70: "Stage2", 76: "Stage3",
    }  # fmt: skip
    plan = five_stages.recipe().plan()
    assert [stage.config.data.seq_len for stage in plan] == [16, 16, 16, 128, 1024]
    assert {stage.config.data.seq_len * stage.config.data.batch_size for stage in plan} == {1024}
    assert [stage.config.model.rope_base for stage in plan] == [1e4, 5e5, 5e6, 5e6, 5e6]
    kept = [s["stage.optimizer_sha256"] == s["stage.optimizer_sha256_before"] for s in [*stages.values()][1:]]
    assert kept == [True, True, False, False]
    rate = {r.step: r.values["lr/group.experts"] / training.config.optim.experts.lr for r in records}
    assert {rate[step] for step in (42, 43, 49, 69, 73)} == {1.0}, "no warm-up at the first switches"
    assert max(rate[step] for step in (1, 70, 76)) < 1.0, "one at first and after each reset"
    assert 0.1 <= rate[87] < 0.2, "and a decay in the last stage"
    share = {r.step: r.values["aux_loss_share"] for r in records}
    assert min(share[step] for step in range(1, 70)) > 0.0 == max(share[step] for step in range(70, 88))
    loss = {r.step: r.values["lm_loss"] for r in records}
    for last in (42, 48):
        assert abs(loss[last + 1] - loss[last]) < 0.5, "as between other steps"
    assert loss[87] < loss[1] - 1.5


def test_mixture_of_the_published_plan_is_read_as_stated() -> None:
    """Shows R801-7.5, R801-7.6: known shares and one unstated rest; tokens drawn by unique tokens, none is heavy."""
    recipe = published.recipe()
    lines = [line for line in plan_lines(recipe) if line.startswith("  mixture")]
    assert lines[0] == "  mixture: web 48%, code 20%, unstated 32%"
    assert lines[2] == "  mixture: web 23%, papers 20%, books 17%, qa 10%, unstated 30%"
    assert lines[4] == "  mixture: agent 15%, capability 11%, unstated 74%"
    last = {each.source: each for each in repeats(recipe) if each.is_last}
    web = 33_554_432 * (210_000 * 0.48 + 135_000 * 0.23)
    assert last["web"].drawn == pytest.approx(web)
    assert last["web"].times == pytest.approx(web / 4.24e12)
    assert {source: each.stage for source, each in last.items()} == {
        "web": "Stage1-3", "code": "Stage1-1", "papers": "Stage1-3", "books": "Stage1-3", "qa": "Stage2",
        "agent": "Stage3",
    }  # fmt: skip
    assert not any(each.is_heavy for each in repeats(recipe))


def test_heavy_repetition_is_warned_of() -> None:
    """Shows R801-7.6: the plan says which source, how often and by which stage; changes within a stage count."""
    config = TrainConfig().with_overrides({"data.mixture.changes": "50: library=0 packages=1"})
    recipe = Recipe(config=config, stages=(Stage(name="a", steps=100),), stock={"library": 2000, "packages": 1e9})
    drawn = {each.source: each.drawn for each in repeats(recipe)}
    assert drawn["library"] == pytest.approx(50 * 512 * 0.4)
    warnings = [line for line in plan_lines(recipe) if line.startswith("WARNING")]
    assert warnings == ["WARNING: library is read 5.1 times by the end of a"]
