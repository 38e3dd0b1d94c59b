"""Training on packed documents: no document learns from another one, and padding is nothing."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_training import small_config

from contracts.events import Scalar
from trainer import Parts, Recipe, TrainConfig
from trainer.corpus import Corpus
from trainer.loader import Loader
from trainer.model import LanguageModel
from trainer.targets import Sequences, Targets
from trainer.training import Training
from trainer.weights import initial_buffers, initial_weights

KINDS: dict[str, dict[str, Scalar]] = {
    "default": {},
    "MTP": {"mtp.num_modules": 2},
    "micro-batches": {"parallel.accumulation": 2, "data.batch_size": 16},
}


@pytest.fixture(scope="module")
def documents() -> Corpus:
    """Four sources of documents of about twelve tokens below 128."""
    draw = np.random.default_rng(0)
    texts = [draw.integers(1, 128, 10_000).astype(np.uint8) for _ in range(4)]
    for text in texts:
        text[draw.random(len(text)) < 0.08] = 0
    return Corpus(sources=tuple(texts), sha256="documents")


def packed(**overrides: Scalar) -> TrainConfig:
    return small_config(data__documents="packed", data__seq_len=48, **overrides)


def losses(config: TrainConfig, sequences: Sequences) -> torch.Tensor:
    """Mean loss of the labels of each row, under the initial weights."""
    weights = initial_weights(config) | initial_buffers(config)
    return LanguageModel(config, Parts()).forward(weights, sequences, 0).sequence_loss_B


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_document_does_not_see_another(place: int, documents: Corpus) -> None:
    """With all other documents of the rows changed, the losses of one have equal bits: the leak is exactly 0."""
    config = packed(model__num_layers=3, moe__num_experts=2)
    for step in range(3):
        sequences = Loader(config, Parts(), documents, None, 0).read(step).sequences
        assert sequences.document_BS is not None
        own = sequences.document_BS == place
        other = torch.where(own, sequences.tokens_BS, (sequences.tokens_BS * 7 + 13) % 256)
        assert int((other != sequences.tokens_BS).sum()) > 100
        before, after = (
            losses(config, replace(sequences, tokens_BS=tokens, label_mask_BS=own))
            for tokens in (sequences.tokens_BS, other)
        )
        assert before.count_nonzero() > 3
        assert torch.equal(before, after)


@pytest.mark.parametrize("kind", KINDS)
def test_no_gradient_crosses_a_border(kind: str, documents: Corpus) -> None:
    """The loss of a document has no gradient at all to tokens that only the others and the padding hold."""
    config = packed(moe__balance__coef=0.0, moe__z_loss__coef=0.0).with_overrides(KINDS[kind])
    sequences = Loader(config, Parts(), documents, None, 0).read(0).sequences
    assert sequences.document_BS is not None
    own = sequences.document_BS == 1
    tokens = torch.where(own, sequences.tokens_BS, sequences.tokens_BS % 64 + 128)
    weights = {name: value.requires_grad_() for name, value in initial_weights(config).items()}
    apart = Sequences(tokens_BS=tokens, document_BS=sequences.document_BS, label_mask_BS=own)
    forward = LanguageModel(config, Parts()).forward(weights | initial_buffers(config), apart, 0)
    (gradient,) = torch.autograd.grad(forward.loss, [weights["embedding.weight"]])
    assert gradient[:128].abs().max() > 0
    assert torch.equal(gradient[128:], torch.zeros_like(gradient[128:]))


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_labels_do_not_cross_documents(depth: int, documents: Corpus) -> None:
    """Next-token labels and those of the MTP modules: token and label are of one document, and all such pairs count."""
    sequences = Loader(packed(), Parts(), documents, None, 0).read(0).sequences
    assert sequences.document_BS is not None
    counts = Targets.of(sequences, depth).counts_BS
    for row, (document, tokens) in enumerate(
        zip(sequences.document_BS.tolist(), sequences.tokens_BS.tolist(), strict=True)
    ):
        for i, counted in enumerate(counts[row].tolist()):
            ahead = i + depth + 1
            assert counted == (ahead < len(document) and document[i] == document[ahead] >= 0)
            assert not counted or 0 not in tokens[i:ahead]


def test_padding_counts_nowhere(documents: Corpus) -> None:
    """Whatever the padding holds, loss, gradients and expert loads keep their bits."""
    config = packed()
    sequences = Loader(config, Parts(), documents, None, 0).read(0).sequences
    assert sequences.document_BS is not None
    is_padding = sequences.document_BS < 0
    assert is_padding.any()
    noise = replace(sequences, tokens_BS=torch.where(is_padding, 77, sequences.tokens_BS))
    weights = initial_weights(config) | initial_buffers(config)
    model = LanguageModel(config, Parts())
    first, second = (model.forward(weights, given, 0) for given in (sequences, noise))
    assert torch.equal(first.lm_loss, second.lm_loss)
    assert torch.equal(first.load_LRE, second.load_LRE)
    assert torch.equal(first.balance_L, second.balance_L)


@pytest.mark.parametrize("kind", KINDS)
def test_packed_rows_are_learned(kind: str, documents: Corpus) -> None:
    """The series of packed rows are there, and the loss falls."""
    config = packed(steps=30, data__balance_window=3).with_overrides(KINDS[kind])
    training = Training(Recipe(config=config), documents, None, itertools.count(1.0).__next__)
    values = [training.advance().values for _ in range(20)]
    assert values[-1]["lm_loss"] < values[0]["lm_loss"]
    assert all(1.0 <= v["attention_imbalance"] < 2.0 for v in values)
    assert all(0.0 <= v["mixture_drift"] < 1.0 and 0.0 <= v["padding_share"] < 0.5 for v in values)
