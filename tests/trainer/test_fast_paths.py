"""Ways of computing that are there for speed: rows document by document, losses without whole logits, bfloat16."""

from __future__ import annotations

import itertools
import time

import pytest
import torch
from small_training import equal_bits, small_config

from contracts.events import Scalar
from trainer import Recipe, TrainConfig
from trainer.attention import LONG, AttentionTables, LongRows, tables_of
from trainer.backward import StepGradients, step_gradients
from trainer.config import GroupConfig, ModelConfig, MuonConfig, OptimConfig
from trainer.corpus import Corpus, corpus_of, load_corpus
from trainer.loader import Loader
from trainer.model import LanguageModel, chunks_logits
from trainer.muon import orthogonalise
from trainer.optim import Optimizer
from trainer.parts import Parts
from trainer.stopwatch import Stopwatch
from trainer.training import Training
from trainer.weights import initial_weights

MODEL = ModelConfig(num_heads=4, num_kv_heads=2, head_dim=16)


@pytest.mark.parametrize("documents", [(300,), (100, 1, 150, 49), (64,) * 4 + (44,)])
def test_long_rows_equal_whole_matrices(documents: tuple[int, ...]) -> None:
    """Two rows of the same documents, the second ended by padding; the gradient too, and not a bit leaks."""
    seq_len = sum(documents)
    document_BS = torch.repeat_interleave(torch.arange(len(documents)), torch.tensor(documents)).repeat(2, 1)
    document_BS[1, -40:] = -1
    ways = [AttentionTables.build(MODEL, seq_len), LongRows.build(MODEL, seq_len)]
    torch.manual_seed(0)
    qkv = torch.randn(2, seq_len, 8, 16, requires_grad=True)
    grad = torch.randn(2, seq_len, 64)
    grad[1, -40:] = 0.0
    found = []
    for tables in ways:
        out = tables.attend(qkv, tables.sight(document_BS))
        found.append((out[document_BS >= 0], *torch.autograd.grad(out, qkv, grad)))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=1e-4)
    changed = qkv.detach().clone()
    changed[0, : documents[0]] += 1.0
    before, after = (ways[1].attend(x, ways[1].sight(document_BS)) for x in (qkv.detach(), changed))
    assert equal_bits(before[0, documents[0] :], after[0, documents[0] :])


def test_plain_rows_need_no_documents() -> None:
    tables = LongRows.build(MODEL, LONG)
    assert isinstance(tables_of(MODEL, LONG, "float32"), LongRows)
    assert isinstance(tables_of(MODEL, LONG - 1, "float32"), AttentionTables)
    assert isinstance(tables_of(MODEL, 16, "bfloat16"), LongRows)
    qkv = torch.randn(2, LONG, 8, 16)
    torch.testing.assert_close(
        tables.attend(qkv, None), AttentionTables.build(MODEL, LONG).attend(qkv, None), atol=1e-5, rtol=1e-4
    )


def gradients(config: TrainConfig) -> StepGradients:
    weights = {name: weight.requires_grad_() for name, weight in initial_weights(config).items()}
    corpus: Corpus = corpus_of(config.data, config.model.vocab_size)
    sequences = Loader(config, Parts(), corpus, None, 0).read(0).sequences
    watch = Stopwatch(time.perf_counter, has_laps=False)
    return step_gradients(LanguageModel(config, Parts()), weights, [*weights], sequences, 0, config, watch)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"loss.head_z_coef": 0.1},
        {"data.documents": "packed", "mtp.num_modules": 1},
        {"model.tie_embeddings": True, "parallel.accumulation": 2},
    ],
)
def test_a_large_vocabulary_s_loss_equals_that_of_whole_logits(
    more: dict[str, Scalar], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config().with_overrides({"model.vocab_size": 2100, **more})
    assert chunks_logits(config)
    chunked = gradients(config)
    monkeypatch.setattr("trainer.model._LARGE_VOCABULARY", 10**9)
    whole = gradients(config)
    for name in ("loss", "lm_loss", "mtp_K", "sequence_loss_B"):
        mine, theirs = getattr(chunked.forward, name), getattr(whole.forward, name)
        torch.testing.assert_close(mine.detach(), theirs.detach(), atol=1e-5, rtol=1e-5)
    for mine, theirs in zip(chunked.grads, whole.grads, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("products", ["torch", "kernels"])
def test_bfloat16_keeps_float32_weights_and_nearly_its_gradient(products: str) -> None:
    """Gradients and losses are float32; one cosine for the whole model."""
    small = {"moe.z_loss.coef": 0.0, "moe.balance.coef": 0.0, "numerics.experts.products": products}
    config = small_config().with_overrides({"model.d_model": 64, "model.qk_norm": True, "data.seq_len": 64, **small})
    exact, low = (gradients(config.with_overrides({"numerics.compute": c})) for c in ("float32", "bfloat16"))
    assert {grad.dtype for grad in low.grads} == {torch.float32}
    assert float(low.forward.loss) == pytest.approx(float(exact.forward.loss), rel=1e-3)
    mine, theirs = (torch.cat([grad.flatten() for grad in found.grads]) for found in (low, exact))
    assert float(torch.nn.functional.cosine_similarity(mine, theirs, dim=0)) > 0.99


def test_bfloat16_learns_as_float32_does() -> None:
    """Forty steps on the same data: equal losses but for a hundredth, and the same bits when it is done again."""

    def losses(compute: str) -> list[float]:
        config = small_config(numerics__compute=compute, model__d_model=32, moe__d_expert=32)
        training = Training(Recipe(config=config), load_corpus(40_000), None, itertools.count(0.0).__next__)
        return [training.advance().values["lm_loss"] for _ in range(40)]

    exact, low = losses("float32"), losses("bfloat16")
    assert low[-1] < low[0] - 1.0
    assert low[-1] == pytest.approx(exact[-1], rel=0.02)
    assert losses("bfloat16") == low


def test_bfloat16_iterations_of_muon_point_the_same_way() -> None:
    torch.manual_seed(0)
    stack = torch.randn(8, 24, 40)
    exact, low = (orthogonalise(stack, 5, 1e-7, dtype) for dtype in (torch.float32, torch.bfloat16))
    assert low.dtype == torch.float32
    assert float(torch.nn.functional.cosine_similarity(exact.flatten(), low.flatten(), dim=0)) > 0.999


def test_an_update_is_the_same_whether_it_is_measured_or_not() -> None:
    """Also where the parameter is larger than a piece; the measured norm is that of the change."""
    torch.manual_seed(0)
    value, grad = torch.randn(700, 400), torch.randn(700, 400)
    group = GroupConfig(weight_decay=0.1)

    def moved(*, measure: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        optimizer = Optimizer({"head": value}, {"head": "head"}, OptimConfig(head=group), MuonConfig(), {})
        return optimizer.weights["head"].detach(), optimizer.step([grad], 0.5, 1.0, measure=measure)

    (plain, nothing), (weight, norms) = moved(measure=False), moved(measure=True)
    assert nothing == {}
    assert equal_bits(plain, weight)
    assert float(norms["head"]) == pytest.approx(float((weight - value).norm()), rel=1e-4)
