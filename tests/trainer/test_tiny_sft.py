"""Tiny SFT: answers are learned, prompts are not, and the budget is kept."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from small_training import Trainings, equal_bits, small_config

from contracts.events import CheckpointSaved, SegmentStarted
from trainer import Parts, Recipe
from trainer.checkpoint import load_checkpoint
from trainer.corpus import load_examples
from trainer.generate import Sampling, full_logits, generate
from trainer.loader import Loader
from trainer.recipes.tiny_sft import recipe as tiny_sft_recipe
from trainer.tiny_sft import Budget, answer_loss, answered, fine_tune, sft_overrides

EXAMPLES = Path(__file__).parent / "examples"
BUDGET = Budget(steps=40, batch_size=4, seq_len=24, lr_scale=1.0)


@pytest.fixture
def checkpoint(trainings: Trainings) -> Path:
    """Of a training with the small config on the standard library."""
    trace = trainings.here(small_config())
    return Path(trace.of(CheckpointSaved)[-1].path)  # type: ignore[attr-defined]


def tune(checkpoint: Path, examples: str = "sums.jsonl"):
    return fine_tune(
        Recipe(config=small_config()), checkpoint, EXAMPLES / examples, BUDGET, itertools.count(1.0).__next__
    )


def test_only_answers_are_labels() -> None:
    """Every byte of every answer and its end is a label once an epoch; no byte of a prompt is."""
    config = small_config().with_overrides(
        sft_overrides(small_config(), BUDGET) | {"data.examples": str(EXAMPLES / "sums.jsonl"), "data.batch_size": 1}
    )
    corpus = load_examples(EXAMPLES / "sums.jsonl")
    loader = Loader(config, Parts(), corpus, None, 0)
    labels, rows = [], 0
    while True:
        batch = loader.read(rows)
        if batch.repeated:
            break
        rows += 1
        assert batch.sequences.label_mask_BS is not None
        assert batch.sequences.document_BS is not None
        text = bytes(batch.sequences.tokens_BS[batch.sequences.label_mask_BS].tolist())
        labels += [answer.decode() for answer in text.split(b"\0")[:-1]]
        assert not batch.sequences.label_mask_BS[batch.sequences.document_BS < 0].any()
    examples = [json.loads(line) for line in (EXAMPLES / "sums.jsonl").read_text().splitlines()]
    assert sorted(labels) == sorted(example["answer"] for example in examples)
    assert rows > 1


def test_it_learns_the_answers_within_its_budget(checkpoint: Path) -> None:
    """The loss on the answers falls well below that of the checkpoint; equal arguments give equal bits."""
    base, recipe = load_checkpoint(checkpoint), Recipe(config=small_config())
    tuned, again = tune(checkpoint), tune(checkpoint)
    assert len(tuned.losses) == tuned.state.step == BUDGET.steps
    assert tuned.losses == again.losses
    assert all(equal_bits(weight, again.state.weights[name]) for name, weight in tuned.state.weights.items())
    before, after = (answer_loss(recipe, s, EXAMPLES / "sums.jsonl", 24) for s in (base, tuned.state))
    assert after < 0.75 * before
    other = tune(checkpoint, "differences.jsonl")
    assert answer_loss(recipe, other.state, EXAMPLES / "sums.jsonl", 24) > after


def test_answer_loss_does_not_depend_on_the_rows(checkpoint: Path) -> None:
    state, recipe = load_checkpoint(checkpoint), Recipe(config=small_config())
    losses = [answer_loss(recipe, state, EXAMPLES / "sums.jsonl", seq_len) for seq_len in (12, 24, 100)]
    assert np.ptp(losses) < 1e-5


def test_it_starts_with_the_weights_alone(checkpoint: Path, new_trainings) -> None:
    """As a launch: step 0, fresh optimizer, no data read before; a restart of its own goes on where it was."""
    config = small_config(checkpoint__every=2).with_overrides(
        sft_overrides(small_config(), BUDGET) | {"data.examples": str(EXAMPLES / "sums.jsonl"), "steps": 6}
    )
    whole = new_trainings()
    trace = whole.here(config, start_checkpoint=str(checkpoint))
    assert trace.of(SegmentStarted)[0].start_step == 0
    assert list(trace.metrics) == [1, 2, 3, 4, 5, 6]
    assert {name for name in trace.metrics[1] if "/source." in name} == {
        "mixture/source.answers",
        "lm_loss/source.answers",
    }
    base, two = (load_checkpoint(path) for path in (checkpoint, whole.run_folder / "checkpoints/step-000002"))
    assert {parameter.age for parameter in two.optimizer.values()} == {2}
    assert not equal_bits(base.weights["head.weight"], two.weights["head.weight"])
    resumed = new_trainings().here(config, start_checkpoint=str(whole.run_folder / "checkpoints/step-000002"))
    assert resumed.metrics == {step: values for step, values in trace.metrics.items() if step > 2}


def test_the_recipe_takes_its_file_as_an_override(trainings: Trainings) -> None:
    config = tiny_sft_recipe().config
    assert (config.data.documents, config.steps) == ("answers", Budget().steps)
    process = trainings.start(
        entry="trainer.recipes.tiny_sft:recipe",
        overrides={"data.examples": str(EXAMPLES / "sums.jsonl"), "checkpoint.at_end": False},
        max_step=2,
    )
    _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")


def test_an_answer_is_right_when_greedy_decoding_writes_it(checkpoint: Path) -> None:
    """And its probability is the product of those of its bytes and its end; any other answer is wrong."""
    config, weights = small_config(), load_checkpoint(checkpoint).weights
    prompt = b"12+3="
    greedy = generate(config, weights, torch.tensor([[*prompt]]), 4, Sampling(), torch.Generator())[0, 5:].tolist()
    for answer in (bytes(greedy), b"15"):
        logits = full_logits(config, weights, torch.tensor([[*prompt, *answer]]))[0, 4:].log_softmax(dim=-1)
        wanted = [*answer, 0]
        found = answered(config, weights, prompt, answer)
        assert found.probability == pytest.approx(float(logits[range(len(wanted)), wanted].sum().exp()), rel=1e-5)
        assert found.is_greedy == (logits.argmax(dim=-1).tolist() == wanted)
