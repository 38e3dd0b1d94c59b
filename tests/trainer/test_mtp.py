"""Packed documents and multi-token prediction: what may be seen, what is predicted, how modules are grown."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from small_training import equal_bits, small_config
from torch import Tensor
from torch.nn import functional

from contracts.events import Scalar
from trainer import Parts, Recipe, TrainConfig
from trainer.attention import AttentionTables, document_mask
from trainer.config import MtpConfig
from trainer.corpus import Corpus
from trainer.model import Forward, LanguageModel
from trainer.mtp import grown, joined, teacher_losses
from trainer.norm import rms_norm
from trainer.targets import Sequences, Targets, inputs_ahead
from trainer.training import StepRecord, Training, TrainingState
from trainer.weights import initial_weights, parameter_shapes

ROW = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, -1, -1]])  # lengths 5, 7, 3 and padding


def tokens(rows: int = 1, seed: int = 1) -> Tensor:
    return torch.randint(0, 256, (rows, 17), generator=torch.Generator().manual_seed(seed))


def one_row(**overrides: Scalar) -> TrainConfig:
    return small_config(data__batch_size=1, parallel__dp_size=1, **overrides)


def forward(config: TrainConfig, sequences: Sequences, weights: dict[str, Tensor] | None = None) -> Forward:
    return LanguageModel(config, Parts()).forward(weights or initial_weights(config), sequences, 0)


def training(config: TrainConfig, corpus: Corpus, state: TrainingState | None = None) -> Training:
    return Training(Recipe(config=config), corpus, state, itertools.count(0.0).__next__)


def test_documents_do_not_leak() -> None:
    """Exactly 0: other tokens in one document change no bit of another, forward or backward."""
    config = one_row(mtp__num_modules=1)
    before = tokens()
    after = torch.where(ROW == 0, 255 - before, before)
    one, two = (forward(config, Sequences(tokens_BS=t, document_BS=ROW)) for t in (before, after))
    elsewhere = slice(5, 15)
    for layer in range(2):
        assert torch.equal(one.logits_LET[layer, :, elsewhere], two.logits_LET[layer, :, elsewhere])
        assert not torch.equal(one.logits_LET[layer, :, :5], two.logits_LET[layer, :, :5])
    mtp = slice(5, 11)  # its last positions are told a token of the next document and do not count
    assert torch.equal(one.logits_LET[2, :, mtp], two.logits_LET[2, :, mtp])


def test_packed_documents_equal_documents_alone() -> None:
    """Losses of a packed row are those of its documents, weighted by their labels."""
    config = one_row()
    packed = forward(config, Sequences(tokens_BS=tokens(), document_BS=ROW))
    total, labels = 0.0, 0
    for document, (start, end) in enumerate(((0, 5), (5, 12), (12, 15))):
        alone = torch.full((1, 17), -1)
        alone[0, : end - start] = document
        shifted = torch.zeros(1, 17, dtype=torch.int64)
        shifted[0, : end - start] = tokens()[0, start:end]
        num_labels = end - start - 1
        total += num_labels * float(forward(config, Sequences(tokens_BS=shifted, document_BS=alone)).lm_loss)
        labels += num_labels
    assert float(packed.lm_loss) == pytest.approx(total / labels, rel=1e-5)


def test_one_document_a_row_is_plain_causal_attention() -> None:
    config = one_row()
    tables = AttentionTables.build(config.model, 16)
    mask = document_mask(torch.zeros(1, 17, dtype=torch.int64), tables)
    assert mask is not None
    assert torch.equal(mask, tables.mask_TS.expand_as(mask))


def test_labels_follow_the_mask() -> None:
    """Only answers are learned; prompts still pass through the routers."""
    config = one_row()
    answers = torch.zeros(1, 17, dtype=torch.bool)
    answers[0, 8:11] = True
    sequences = Sequences(tokens_BS=tokens(), document_BS=ROW, label_mask_BS=answers)
    masked, whole = forward(config, sequences), forward(config, replace(sequences, label_mask_BS=None))
    assert Targets.of(sequences, 0).counts_BS[0].nonzero().view(-1).tolist() == [7, 8, 9]
    assert torch.equal(masked.count_LE, whole.count_LE)
    assert float(masked.lm_loss) != float(whole.lm_loss)
    assert float(masked.lm_loss) == pytest.approx(float(masked.sequence_loss_B[0]))


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_targets_never_cross_documents(depth: int) -> None:
    """Position i of a document of n tokens has a target only when i + depth + 1 < n."""
    targets = Targets.of(Sequences(tokens_BS=tokens(), document_BS=ROW), depth)
    expected = [i for first, n in ((0, 5), (5, 7), (12, 3)) for i in range(first, first + n - depth - 1)]
    assert targets.counts_BS[0].nonzero().view(-1).tolist() == expected
    for i in expected:
        assert targets.token_BS[0, i] == tokens()[0, i + depth + 1]
    plain = Targets.of(Sequences(tokens_BS=tokens()), depth)
    assert plain.counts_BS[0].tolist() == [i + depth + 1 <= 16 for i in range(16)]


def test_module_by_hand() -> None:
    """RM2-2.7: hidden state first, then the embedding of the next token, each normed, joined, projected, one block."""
    config = one_row(mtp__num_modules=2)
    weights = initial_weights(config)
    x_BSD, model = torch.randn(1, 16, 16, generator=torch.Generator().manual_seed(2)), config.model
    embedded = functional.embedding(inputs_ahead(Sequences(tokens_BS=tokens()), 1), weights["embedding.weight"])
    assert torch.equal(embedded[0, :16], weights["embedding.weight"][tokens()[0, 1:17]])
    ours = joined(x_BSD, embedded, weights, "mtp.0.", model)
    one = torch.ones(16)
    matrix = weights["mtp.0.projection.weight"]
    by_hand = rms_norm(x_BSD, one, 1e-6) @ matrix[:, :16].t() + rms_norm(embedded, one, 1e-6) @ matrix[:, 16:].t()
    torch.testing.assert_close(ours, by_hand)


def test_module_k_knows_k_tokens_more() -> None:
    """Module k at position i is told token i + k and nothing behind it."""
    config = one_row(mtp__num_modules=2)
    before = tokens()
    for module, depth in ((0, 1), (1, 2)):
        layer = 2 + module
        for distance, matters in ((depth, True), (depth + 1, False)):
            after = before.clone()
            after[0, 6 + distance] = 255 - after[0, 6 + distance]
            a, b = (forward(config, Sequences(tokens_BS=t)).logits_LET[layer, :, 6] for t in (before, after))
            assert torch.equal(a, b) != matters


def test_coefficient_anneals() -> None:
    """Shows RM2-2.7: 0.3, moving to 0.1 in the decay phase."""
    mtp = MtpConfig(num_modules=1, anneal_from=10, anneal_steps=4)
    assert [round(mtp.coefficient(step), 3) for step in (0, 9, 10, 11, 12, 13, 50)] == [
        0.3, 0.3, 0.25, 0.2, 0.15, 0.1, 0.1,
    ]  # fmt: skip


def test_loss_adds_the_weighted_mean_of_the_modules() -> None:
    on, off = one_row(mtp__num_modules=2), one_row(mtp__num_modules=2, mtp__coef=0.0)
    one, zero = (forward(config, Sequences(tokens_BS=tokens())) for config in (on, off))
    assert float(one.loss - zero.loss) == pytest.approx(0.3 * float(one.mtp_K.mean()), rel=1e-5)


def test_teacher_is_the_main_head_ahead_and_gets_no_gradient() -> None:
    """RC2-3.5: the exact distribution of the main head is taught; zero when the module already has it."""
    targets = Targets.of(Sequences(tokens_BS=torch.zeros(1, 6, dtype=torch.int64)), 1)
    teacher, student = (torch.randn(5, 7, generator=torch.Generator().manual_seed(s)).requires_grad_() for s in (1, 2))
    losses = teacher_losses(student, teacher, 1, targets)
    ahead = teacher.detach()[1:].softmax(dim=-1)
    cross = -(ahead * student.detach()[:4].log_softmax(dim=-1)).sum(dim=-1)
    torch.testing.assert_close(losses.detach()[:4], cross + (ahead * ahead.log()).sum(dim=-1))
    gradients = torch.autograd.grad(losses[:4].sum(), (student, teacher), allow_unused=True)
    torch.testing.assert_close(gradients[0][:4], student.detach()[:4].softmax(dim=-1) - ahead)
    assert gradients[1] is None
    same = teacher_losses(torch.cat([teacher[1:], teacher[:1]]).detach(), teacher, 1, targets)
    assert same[:4].abs().max() < 1e-6


def test_growing_copies_the_deepest_module() -> None:
    """RM2-2.8, with another source: depths 2 and 3 are copies of the trained module of depth 1, not of the main model.

    A checkpoint without any module starts it from its initial weights.
    """
    config = small_config(mtp__num_modules=3)
    shapes = parameter_shapes(config.model, config.moe, config.mtp)
    stored = initial_weights(small_config(mtp__num_modules=1))
    more = grown(stored, shapes)
    assert set(more) == set(shapes)
    for name in stored:
        if name.startswith("mtp.0."):
            assert all(equal_bits(more[name.replace(".0.", f".{k}.", 1)], stored[name]) for k in (1, 2))
    assert "mtp.0.projection.weight" not in grown(initial_weights(small_config()), shapes)


def run(trained: Training, num_steps: int) -> list[StepRecord]:
    return [trained.advance() for _ in range(num_steps)]


def copied(state: TrainingState) -> TrainingState:
    return replace(state, weights={name: value.clone() for name, value in state.weights.items()})


def test_growth_from_one_to_three_modules(corpus: Corpus) -> None:
    """Shows RM2-2.8: from a checkpoint; first only the modules learn, then all; the main loss does not jump."""
    base: dict[str, Scalar] = {"mtp.num_modules": 1, "steps": 200, "checkpoint.every": 500}
    first = training(small_config().with_overrides(base), corpus)
    before = run(first, 30)
    config = small_config().with_overrides(base | {"mtp.num_modules": 3, "mtp.freeze_main_until": 45})
    state = copied(first.state())
    second = training(config, corpus, state)
    frozen = run(second, 15)
    after = second.state().weights
    main = [name for name in state.weights if not name.startswith("mtp.")]
    assert all(equal_bits(state.weights[name], after[name]) for name in main)
    assert all(value == 0.0 for name, value in frozen[0].values.items() if name == "update_norm/group.embedding")
    assert frozen[-1].values["mtp_loss/mtp.2"] < frozen[0].values["mtp_loss/mtp.2"]
    assert frozen[0].values["lm_loss"] == pytest.approx(before[-1].values["lm_loss"], abs=0.3)
    joint = run(second, 3)
    assert not equal_bits(state.weights["embedding.weight"], second.state().weights["embedding.weight"])
    assert all(math.isfinite(record.values["loss"]) for record in joint)
    assert joint[0].effective["mtp.coef"] == 0.3


def test_modules_learn_from_the_main_head(corpus: Corpus) -> None:
    """The distilled loss is a divergence: it starts above 0 and falls while the main head stands still."""
    config = small_config(mtp__num_modules=1, mtp__teacher="main_head", mtp__freeze_main_until=100)
    base = training(small_config(), corpus)
    run(base, 30)
    records = run(training(config, corpus, copied(base.state())), 40)
    losses = [record.values["mtp_loss"] for record in records]
    assert min(losses) >= 0.0
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_series_of_the_modules(corpus: Corpus) -> None:
    (record,) = run(training(small_config(mtp__num_modules=2, moe__num_dense_layers=1), corpus), 1)
    values = record.values
    assert values["mtp_loss"] == pytest.approx((values["mtp_loss/mtp.0"] + values["mtp_loss/mtp.1"]) / 2)
    assert {"max_vio/mtp.0", "max_vio/layers.1", "grad_norm/mtp.1.attn", "grad_norm/layers.0.dense"} <= set(values)
    assert "max_vio/layers.0" not in values  # a dense layer routes nothing
