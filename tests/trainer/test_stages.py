"""Recipes of several stages: the published plan, and small ones that really run, are killed, and go on elsewhere."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import re
import runpy
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from small_training import SMALL, Trace, Trainings, equal_bits, read_log, small_config

from contracts.errors import ConfigError
from contracts.events import CheckpointSaved, DataRead, Effective, Scalar
from trainer.checkpoint import load_checkpoint, save_checkpoint
from trainer.config import TrainConfig
from trainer.exchange import main
from trainer.generate import Sampling, full_logits, generate
from trainer.hugging_face import import_model
from trainer.parts import learning_rate, parameter_group
from trainer.plan import plan_lines
from trainer.recipe import Recipe, Stage
from trainer.recipes import published, three_stages
from trainer.staged import StagedTraining, optimizer_hash
from trainer.training import TrainingState
from trainer.weights import num_parameters, parameter_shapes

PROJECT = f"""from trainer import Recipe, Stage, TrainConfig

STAGES = (
    Stage(name="short", steps=3),
    Stage(name="mixture", steps=2, changes={{"model.rope_base": 50000.0, "data.mixture.library": 0.9}}),
    Stage(
        name="long", steps=3, optimizer="reset",
        changes={{
            "model.rope_base": 500000.0, "data.seq_len": 32, "data.batch_size": 4, "moe.balance.coef": 0.0,
            "moe.z_loss.coef": 0.0, "schedule.kind": "cosine", "schedule.warmup_steps": 1, "schedule.decay_steps": 3,
        }},
    ),
)


def recipe():
    config = TrainConfig().with_overrides({SMALL} | {{"checkpoint.every": 100, "model.qk_norm": True}})
    return Recipe(config=config, stages=STAGES)
"""
LAST = 8


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "recipe.py").write_text(PROJECT)
    return folder


def trained(folder: Path, project: Path, **fields: object) -> Trace:
    process = Trainings(run_folder=folder, project=project).start(**fields)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    segment = fields.get("segment", 0)
    assert isinstance(segment, int)
    return read_log(folder, segment)


def checkpoint(trace: Trace, step: int) -> Path:
    saved = [event for event in trace.of(CheckpointSaved) if isinstance(event, CheckpointSaved)]
    return Path(next(event.path for event in saved if event.step == step))


def advanced(training: StagedTraining, step: int) -> TrainingState:
    while training.step < step:
        training.advance()
    return training.state()


def effective(trace: Trace) -> dict[int, Mapping[str, Scalar]]:
    return {event.step: event.values for event in trace.of(Effective) if isinstance(event, Effective)}


def test_published_plan_has_the_report_s_numbers() -> None:
    """Shows R801-7.1, R801-7.2, R801-7.3: 30B parameters, 3B of them active, 33,554,432 tokens a step, 11.88T in all.

    Nothing is allocated; every parameter is in exactly one group, and norms and biases do not decay.
    """
    recipe = published.recipe()
    plan = recipe.plan()
    config = plan[0].config
    shapes = parameter_shapes(config.model, config.moe, config.mtp)
    assert 30e9 < num_parameters(shapes) < 31e9
    assert {stage.config.data.batch_size * stage.config.data.seq_len for stage in plan} == {33_554_432}
    steps = [stage.last_step - stage.first_step for stage in plan]
    assert [stage.last_step for stage in plan[:3]] == [210_000, 240_000, 345_000]
    assert steps[3:] == [3000, 6000]
    assert sum(steps) * 33_554_432 == pytest.approx(11.88e12, rel=1e-3)
    assert [stage.config.model.rope_base for stage in plan] == [1e4, 5e5, 5e6, 5e6, 5e6]
    assert [stage.config.data.seq_len for stage in plan] == [4096, 4096, 4096, 32_768, 262_144]
    assert [stage.resets_optimizer for stage in plan] == [False, False, False, True, True]
    assert [stage.config.moe.balance.coef for stage in plan] == [1e-4] * 3 + [0.0] * 2
    assert [stage.config.moe.z_loss.coef for stage in plan] == [1e-3] * 3 + [0.0] * 2
    assert {config.optim.group(parameter_group(name, len(shape))).optimizer for name, shape in shapes.items()} == {
        "adamw",
        "muon",
    }
    assert config.optim.norm.weight_decay == config.optim.bias.weight_decay == 0.0
    text = "\n".join(plan_lines(recipe))
    assert "30.5 B parameters, 3.35 B of them for a token" in text
    assert text.count("experts: expert parallel 8, each part cut over 32") == len(plan)
    assert [line for line in text.splitlines() if "passes" in line] == [
        *["  64 passes of each rank's rows before one update"] * 3,
        "  8 passes of each rank's rows before one update",
    ]


def test_rates_over_the_published_stages() -> None:
    """Shows R801-7.4: warm-up once in stage 1, none at its switches, again after each reset of the optimizer."""
    plan = published.recipe().plan()

    def rate(step: int) -> float:
        stage = next(stage for stage in plan if step < stage.last_step)
        return stage.config.optim.experts.lr * learning_rate(step, stage.config.schedule)

    assert rate(0) < 1e-6
    for step in (2000, 209_999, 210_000, 240_000, 344_999, 346_100, 347_999):
        assert rate(step) == pytest.approx(5e-4)
    assert rate(345_000) < 1e-6 < rate(345_500) < 5e-4
    assert rate(348_000) < 1e-6
    assert rate(349_000) == pytest.approx(5e-4), "its peak"
    assert rate(353_999) == pytest.approx(5e-5, rel=1e-3)


def test_switches_do_what_the_stages_say(project: Path, tmp_path: Path) -> None:
    """Shows R801-7.3: at each switch length, base, rates, penalties and the optimizer's state, proven by its hash."""
    trace = trained(tmp_path / "run", project)
    changed = effective(trace)
    assert sorted(step for step in changed if "stage.name" in changed[step]) == [1, 4, 6]
    mixture, long = changed[4], changed[6]
    assert mixture["stage.optimizer_sha256"] == mixture["stage.optimizer_sha256_before"]
    assert long["stage.optimizer_sha256"] == optimizer_hash({}) != long["stage.optimizer_sha256_before"]
    assert (long["model.rope_base"], long["data.seq_len"], long["moe.balance.coef"]) == (500_000.0, 32, 0.0)
    rates = {step: values["lr/group.experts"] for step, values in trace.metrics.items()}
    assert rates[4] == rates[3] > rates[6]
    assert trace.metrics[5]["aux_loss_share"] > 0.0 == trace.metrics[6]["aux_loss_share"]
    assert [event.step for event in trace.of(DataRead)] == list(range(1, LAST + 1))
    assert trace.metrics[LAST]["data_position"] == 5 * 8 + 3 * 4


def test_resumes_at_a_switch_and_inside_a_stage_are_bit_stable(project: Path, tmp_path: Path) -> None:
    """Shows R801-7.4: stopping at any step and going on from the checkpoint gives the bits of never having stopped."""
    recipe = runpy.run_path(str(project / "recipe.py"))["recipe"]()

    def begun(state: TrainingState | None) -> StagedTraining:
        return StagedTraining(recipe, state, itertools.count(0.0).__next__)

    whole = advanced(begun(None), LAST)
    for stop in range(1, LAST):
        folder = tmp_path / f"stop{stop}"
        save_checkpoint(advanced(begun(None), stop), folder)
        again = advanced(begun(load_checkpoint(folder)), LAST)
        assert all(equal_bits(again.weights[name], weight) for name, weight in whole.weights.items()), stop


SCALED: dict[str, Scalar] = {
    "stages.short.steps": 4, "stages.mixture.steps": 4, "stages.long.steps": 32, "data.corpus_bytes": 40_000,
    "stages.long.schedule.decay_steps": 32,
}  # fmt: skip
END = 40


def test_three_stages_killed_resumed_elsewhere_and_exported(tmp_path: Path) -> None:
    """`recipes.three_stages` over a switch, SIGKILL, the rest on two data-parallel ranks: equal weights and texts.

    The exported model says the last stage's rotation and length, and its import writes what the checkpoint does.
    """
    project, folder = tmp_path / "project", tmp_path / "killed"
    project.mkdir()
    (project / "recipe.py").write_text("from trainer.recipes.three_stages import recipe\n")
    recipe = three_stages.recipe().with_overrides(SCALED)
    whole = advanced(StagedTraining(recipe, None, itertools.count(0.0).__next__), END)
    process = Trainings(run_folder=folder, project=project).start(overrides={**SCALED, "checkpoint.every": 1})
    while not list((folder / "checkpoints").glob("step-00000[6-9]")) and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    killed = read_log(folder)
    step = max(event.step for event in killed.of(CheckpointSaved) if isinstance(event, CheckpointSaved))
    assert 4 < step < END
    fields = {"segment": 1, "start_checkpoint": str(checkpoint(killed, step))}
    again = trained(folder, project, overrides={**SCALED, "parallel.dp_size": 2}, **fields)
    saved = checkpoint(again, END)
    state = load_checkpoint(saved)
    for name, weight in whole.weights.items():
        torch.testing.assert_close(state.weights[name], weight, atol=1e-6, rtol=1e-5)
    sets = [text for key, value in SCALED.items() for text in ("--set", f"{key}={value}")]
    assert main(["export", str(project), str(saved), str(tmp_path / "model"), *sets]) == 0
    assert_equal_texts(recipe.plan()[-1].config, state.weights, tmp_path / "model")


def assert_equal_texts(config: TrainConfig, weights: Mapping[str, torch.Tensor], exported: Path) -> None:
    """By our own import, and by transformers where it is installed."""
    described = json.loads((exported / "config.json").read_text())
    assert (described["rope_theta"], described["max_position_embeddings"]) == (500_000.0, 256)
    prompts, new = torch.tensor([list(b"import os"), list(b"def __ini")]), 60

    def text(config: TrainConfig, weights: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return generate(config, weights, prompts, new, Sampling(temperature=1.0), torch.Generator().manual_seed(1))

    ours, found = text(config, weights), import_model(exported)
    imported = TrainConfig().with_overrides(dict(found.overrides))
    assert torch.equal(text(imported, found.weights), ours)
    logits = full_logits(imported, found.weights, ours)
    wrong = full_logits(imported.with_overrides({"model.rope_base": 10_000.0}), found.weights, ours)
    assert (wrong - logits).abs().max() > 1e-4, "the rotation of the first stage is another"
    if importlib.util.find_spec("transformers"):
        transformers = importlib.import_module("transformers")
        theirs = transformers.Qwen3MoeForCausalLM.from_pretrained(exported, dtype=torch.float32)
        with torch.no_grad():
            assert (theirs(ours).logits - logits).abs().max() < 1e-5
            found_BS = theirs.generate(prompts, max_new_tokens=new, min_new_tokens=new, do_sample=False)
        assert torch.equal(found_BS, generate(config, weights, prompts, new, Sampling(), torch.Generator()))


def test_small_recipe_plan_and_overrides_of_a_stage() -> None:
    recipe = three_stages.recipe().with_overrides(
        {"seed": 3, "stages.long.steps": "7", "stages.long.data.seq_len": 128}
    )
    plan = recipe.plan()
    assert [(stage.name, stage.last_step) for stage in plan] == [("short", 60), ("mixture", 100), ("long", 107)]
    assert {stage.config.seed for stage in plan} == {3}
    assert [stage.config.data.seq_len for stage in plan] == [64, 64, 128]
    both = recipe.with_overrides({"data.seq_len": 32, "stages.long.data.seq_len": 256}).plan()
    assert [stage.config.data.seq_len for stage in both] == [32, 32, 256], "what a stage sets is named beside it"
    text = "\n".join(plan_lines(recipe))
    assert "107 of 4 x 128 = 512 tokens; 3,584 tokens, 54,784 in all; previous weights, optimizer reset" in text


@pytest.mark.parametrize(
    ("stages", "overrides", "message"),
    [
        ((Stage(name="a", steps=1),), {"stages.b.seed": 1}, "'stages.b.seed' names no stage"),
        ((Stage(name="a", steps=1),), {"stages.a.steps": "none"}, "stages.a.steps is 'none'"),
        ((Stage(name="a", steps=1, changes={"moe.k": 1}),), {}, "unknown config field 'moe.k'"),
        (
            (Stage(name="a", steps=1), Stage(name="b", steps=1, changes={"data.seq_len": 32})),
            {"data.seq_len": 64},
            "'data.seq_len' would do nothing in a stage that sets it itself: b.*set stages.b.data.seq_len",
        ),
        ((Stage(name="a", steps=1),), {"steps": 9}, "'steps' would do nothing.*set stages.a.steps"),
        (
            (Stage(name="a", steps=1), Stage(name="b", steps=1, changes={"model.d_model": 32})),
            {},
            r"stage b changes the shape of 'embedding.weight' from \(256, 16\) to \(256, 32\)",
        ),
        (
            (Stage(name="a", steps=1), Stage(name="b", steps=1, changes={"parallel.dp_size": 1})),
            {"parallel.processes": True},
            "stage b changes parallel.dp_size",
        ),
    ],
)
def test_wrong_stages_are_refused(stages: tuple[Stage, ...], overrides: dict[str, Scalar], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Recipe(config=small_config(), stages=stages).with_overrides(overrides).plan()
    assert re.search(message, str(caught.value), re.DOTALL)


def test_stages_need_names_of_their_own() -> None:
    with pytest.raises(ConfigError, match="stages are named 'a', 'a'"):
        Recipe(config=small_config(), stages=(Stage(name="a", steps=1), Stage(name="a", steps=1)))


def test_dry_run_prints_the_plan_of_a_folder_or_a_module(
    project: Path, run_lathe: Callable[..., tuple[int, str, str]]
) -> None:
    """`lathe train RECIPE --set a.b=c --dry-run`; nothing is opened, trained or stored."""
    status, out, _ = run_lathe({}, "train", project, "--set", "stages.long.steps=9", "--dry-run")
    assert status == 0
    assert "long: steps 6 to 14 of 4 x 32 = 128 tokens" in out
    status, out, _ = run_lathe({}, "train", "trainer.recipes.published:recipe", "--dry-run")
    assert status == 0
    assert "Stage3: steps 348,001 to 354,000 of 128 x 262,144 = 33,554,432 tokens" in out
    status, out, err = run_lathe({}, "train", "trainer.recipes.published:recipe")
    assert (status, out) == (2, "")
    assert "commit a recipe.py with the line: from trainer.recipes.published import recipe" in err
    status, out, _ = run_lathe({}, "train", project, "--dry-run", "--steps", "4", "--seed", "7", "--json")
    assert status == 0
    assert json.loads(out)["plan"][0].endswith("tensors; seed 7")
    assert [line.split(" of ")[0] for line in json.loads(out)["plan"] if ": steps" in line] == [
        "short: steps 1 to 3", "mixture: steps 4 to 4",
    ]  # fmt: skip
    status, _, err = run_lathe({}, "train", project, "--dry-run", "--resume", "some-run")
    assert (status, "leave out --resume" in err) == (2, True)
    status, out, err = run_lathe({}, "train", project, "--set", "moe.topk=2", "--dry-run")
    assert (status, out) == (2, "")
    assert "unknown config field 'moe.topk'" in err
    assert "Traceback" not in err
    status, _, err = run_lathe({}, "train", project / "missing", "--dry-run")
    assert status == 2
    assert "is no folder" in err
    assert not list(project.glob("**/events.log"))
