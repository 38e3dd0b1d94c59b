"""Our checkpoints under evaluation: equal bits at equal batch, close ones at others. Shows R801-2.4, R801-4.15."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from contracts.errors import UserInputError
from loops.evals.bits import bits_per_byte
from loops.evals.bits import save as save_bits
from loops.evals.checkpoint_model import CheckpointModel
from loops.evals.model import Asked
from loops.evals.protocol import protocol
from loops.evals.replay import replay
from loops.evals.run import evaluate, save
from loops.evals.scripted import ScriptedModel
from loops.evals.task import Text
from loops.evals.tasks import generated
from trainer.config import TrainConfig
from trainer.generate import full_logits
from trainer.weights import initial_weights

CONFIG = TrainConfig().with_overrides({"model.num_layers": 2, "model.d_model": 32, "seed": 3})
WEIGHTS = {name: 3.0 * weight for name, weight in initial_weights(CONFIG).items()}  # not all tokens alike
TASK = generated.task("math", "add", 24)


def model(batch_size: int = 8, *, starts: bool = True) -> CheckpointModel:
    return CheckpointModel("tiny", CONFIG, WEIGHTS, starts=starts, batch_size=batch_size)


def test_likelihood_is_that_of_the_model_token_by_token() -> None:
    tokens = torch.tensor([[0, *b"ab", *b"cd"]])
    logprobs = full_logits(CONFIG, WEIGHTS, tokens)[0].double().log_softmax(-1)
    expected = float(logprobs[2, ord("c")] + logprobs[3, ord("d")])
    (found,) = model().weigh([Asked(text="ab", starts=True)], ["cd"])
    assert found.logprob == pytest.approx(expected, abs=1e-6)
    assert found.num_tokens == 2


def test_equal_batch_gives_equal_bytes_and_others_differ_by_less_than_1e_5(tmp_path: Path) -> None:
    found = replay(TASK, protocol("ppl_acc_norm"), [model(8), model(1), model(3), model(32)])
    assert found.is_byte_equal
    assert found.num_logprobs == 3 * 24 * 4
    assert 0.0 < found.max_delta <= 1e-5
    assert found.flips == ()
    files = [save(evaluate(TASK, protocol("ppl_acc_norm"), model()), tmp_path / name) for name in ("a", "b")]
    assert files[0][1] == files[1][1]


def test_flips_between_batch_sizes_are_listed() -> None:
    """Two options of equal likelihood, told apart by nothing but rounding."""

    def likes(bonus: float) -> ScriptedModel:
        return ScriptedModel(name="m", says=lambda asked: "", likes=lambda asked, text: bonus if "7" in text else 0.0)

    found = replay(TASK, protocol("ppl_acc_norm"), [likes(1e-7), likes(-1e-7)])
    assert found.max_delta == pytest.approx(2e-7)
    assert {flip.was_right for flip in found.flips} <= {True, False}
    assert found.flips
    with pytest.raises(UserInputError, match="compares batch sizes"):
        replay(TASK, protocol("ppl_acc_norm"), [model()])


def test_generation_does_not_depend_on_who_else_is_asked() -> None:
    asked = [Asked(text=f"What is {n}?", stop=("\n",), max_tokens=6, starts=True) for n in (3, 12, 7)]
    together = model().write(asked)
    assert together == [model(1).write([each])[0] for each in asked]
    sampled = [Asked(text="abc", max_tokens=6, temperature=1.0, seed=seed) for seed in (1, 2, 1)]
    first, second, third = (each.text for each in model().write(sampled))
    assert first == third != second


def test_stop_words_and_length_end_an_answer() -> None:
    (whole,) = model().write([Asked(text="abc", max_tokens=8)])
    assert whole.finish == "length"
    word = whole.text[2:4]
    (cut,) = model().write([Asked(text="abc", max_tokens=8, stop=(word,))])
    assert cut.text == whole.text.partition(word)[0]
    assert (cut.finish, cut.stopped_by) == ("stop", word)


def test_preflight_knows_whether_documents_begin_with_a_token() -> None:
    assert [each.kind for each in evaluate(TASK, protocol("ppl_acc_norm"), model()).warnings] == []
    assert model().tokens(Asked(text="a", starts=True)) == ([0, 97], 0)
    assert model(starts=False).tokens(Asked(text="a", starts=True)) == ([97], None)


def test_bits_per_byte_of_an_untrained_model_are_those_of_a_uniform_one(tmp_path: Path) -> None:
    uniform = {name: weight * 0 if name == "head.weight" else weight for name, weight in WEIGHTS.items()}
    text = Text(name="t", version=1, documents=("hello world", "again"))
    found = bits_per_byte(text, CheckpointModel("u", CONFIG, uniform, starts=True), window=4)
    assert [count for _, count in found.documents] == [11, 5]
    assert found.value == pytest.approx(math.log2(CONFIG.model.vocab_size))
    path, _ = save_bits(found, tmp_path)
    assert path.read_text().count("\n") == 3
