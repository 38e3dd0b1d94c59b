"""The catalogue of series a step writes, and their values against direct computation."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from small_training import small_config

from contracts.names import SeriesName
from trainer import Parts, Recipe
from trainer.config import GROUPS, SOURCES
from trainer.corpus import Corpus
from trainer.loader import Loader
from trainer.model import LanguageModel
from trainer.training import StepRecord, Training
from trainer.weights import initial_weights

SPARSE = {f"lm_loss/source.{name}" for name in SOURCES}  # only sources that are in the batch


@pytest.fixture(scope="module")
def record(corpus: Corpus) -> StepRecord:
    config = small_config(model__attention_bias=True, clip__max_norm=0.0)
    return Training(Recipe(config=config), corpus, None, itertools.count(0.0, 0.5).__next__).advance()


def test_catalogue(record: StepRecord) -> None:
    """Shows R801-2.3: optimisation state, expert activity, routing stability and key components, each step."""
    layers = ("layers.0", "layers.1")
    modules = ["embedding", "head", "final_norm"]
    modules += [f"{layer}.{part}" for layer in layers for part in ("attn", "router", "experts", "norm")]
    per_layer = ("balance_loss", "z_loss", "max_vio", "max_vio_micro")
    router = ("router_logit_std", "router_logit_max", "router_entropy")
    expected = {
        "loss", "lm_loss", *per_layer, "aux_loss_share", "grad_norm", "weight_norm",
        "tokens_per_second", "step_time_s", "data_position", "repeated_samples",
        *(f"{s}/{layer}" for s in (*per_layer, *router) for layer in layers),
        *(f"{s}/{module}" for s in ("grad_norm", "weight_norm") for module in modules),
        *(f"{s}/group.{group}" for s in ("lr", "weight_decay", "update_norm") for group in GROUPS),
        *(f"expert_load/{layer}/experts.{expert}" for layer in layers for expert in range(4)),
        *(f"mixture/source.{source}" for source in SOURCES),
    }  # fmt: skip
    assert set(record.values) - SPARSE == expected
    assert set(record.values) & SPARSE
    for name in record.values:
        assert str(SeriesName.parse(name)) == name
    assert SeriesName.parse("expert_load/layers.1/experts.3") == SeriesName(
        statistic="expert_load", module="layers.1", layer=1, expert=3
    )
    assert all(math.isfinite(value) for value in record.values.values())


def test_values(record: StepRecord, corpus: Corpus) -> None:
    """Shows R801-2.3: against a second computation from the same weights and samples."""
    config = small_config(model__attention_bias=True)
    weights = {name: w.requires_grad_() for name, w in initial_weights(config).items()}
    batch = Loader(config, Parts(), corpus, None, 0).read(0)
    forward = LanguageModel(config, Parts()).forward(weights, batch.sequences, 0)
    grads = dict(zip(weights, torch.autograd.grad(forward.loss, list(weights.values())), strict=True))

    def norm(tensors: dict[str, torch.Tensor], *parts: str) -> float:
        chosen = [t.detach().flatten() for n, t in tensors.items() if any(part in n for part in parts)]
        return float(torch.cat(chosen).norm())

    values = record.values
    approx = pytest.approx
    assert values["loss"] == approx(float(forward.loss.detach()))
    assert values["loss"] == approx(
        values["lm_loss"]
        + sum(
            config.moe.balance.coef * values[f"balance_loss/layers.{i}"]
            + config.moe.z_loss.coef * values[f"z_loss/layers.{i}"]
            for i in range(2)
        )
    )
    assert values["aux_loss_share"] == approx(1 - values["lm_loss"] / values["loss"], abs=1e-6)
    assert values["balance_loss"] == approx((values["balance_loss/layers.0"] + values["balance_loss/layers.1"]) / 2)
    assert values["grad_norm"] == approx(norm(grads, ""), rel=1e-5)
    assert values["weight_norm"] == approx(norm(weights, ""), rel=1e-5)
    assert values["grad_norm/layers.1.router"] == approx(norm(grads, "layers.1.router"), rel=1e-5)
    assert values["weight_norm/layers.1.experts"] == approx(norm(weights, "layers.1.experts"), rel=1e-5)
    assert values["weight_norm/layers.0.attn"] == approx(
        norm(weights, *(f"layers.0.attn.{p}_proj" for p in "qkvo")), rel=1e-5
    )
    assert values["weight_norm/head"] == approx(norm(weights, "head"), rel=1e-5)
    assert values["router_logit_std/layers.0"] == approx(float(forward.logits_LET[0].std()), rel=1e-5)
    assert values["router_logit_max/layers.0"] == approx(float(forward.logits_LET[0].max()), rel=1e-5)
    entropy = -(forward.probs_LET[1] * forward.probs_LET[1].log()).sum(dim=0).mean()
    assert values["router_entropy/layers.1"] == approx(float(entropy), rel=1e-5)
    loads = [values[f"expert_load/layers.0/experts.{e}"] for e in range(4)]
    assert sum(loads) == approx(4.0)
    assert values["max_vio/layers.0"] == approx(max(loads) - 1.0, abs=1e-6)
    assert values["max_vio"] == approx((values["max_vio/layers.0"] + values["max_vio/layers.1"]) / 2)
    assert values["max_vio_micro/layers.0"] >= values["max_vio/layers.0"] - 1e-6


def test_loss_by_source(record: StepRecord, corpus: Corpus) -> None:
    """The sources' losses, weighted by their share of the step, give the whole."""
    values = record.values
    present = {name for name in SOURCES if f"lm_loss/source.{name}" in values}
    assert present == {name for name in SOURCES if values[f"mixture/source.{name}"] > 0}
    whole = sum(values[f"lm_loss/source.{name}"] * values[f"mixture/source.{name}"] for name in present)
    assert whole == pytest.approx(values["lm_loss"], rel=1e-5)
    assert sum(values[f"mixture/source.{name}"] for name in SOURCES) == pytest.approx(1.0)


def test_clock_and_position(record: StepRecord) -> None:
    assert record.values["step_time_s"] == 0.5
    assert record.values["tokens_per_second"] == 8 * 16 / 0.5
    assert record.values["data_position"] == record.consumed == 8


def test_effective_values_come_from_what_is_used(corpus: Corpus) -> None:
    """Of the optimizer's buckets, the loader's events and the penalty's ramp, not of the config's text."""
    config = small_config(moe__balance__warmup_steps=1, moe__balance__coef=0.5)
    training = Training(
        Recipe(config=config, parts=Parts(parameter_group=lambda name, ndim: "embedding")),
        corpus, None, itertools.count(0.0).__next__,
    )  # fmt: skip
    first, second = training.advance().effective, training.advance().effective
    assert first["param_group.layers.0.experts.gate"] == "embedding"
    assert first["optim.embedding.optimizer"] == "adamw"
    assert "optim.experts.optimizer" not in first  # nothing is in that group
    assert first["parallel.dp_size"] == 2
    assert (first["moe.balance.coef"], second["moe.balance.coef"]) == (0.25, 0.5)


def test_micro_violation_is_the_mean_of_the_ranks(corpus: Corpus) -> None:
    """One rank: both measures are the same. More ranks: the global one is smaller, the samples being equal."""

    def measured(dp_size: int) -> tuple[float, float]:
        config = small_config(parallel__dp_size=dp_size)
        values = Training(Recipe(config=config), corpus, None, itertools.count(0.0).__next__).advance().values
        return values["max_vio"], values["max_vio_micro"]

    one, eight = measured(1), measured(8)
    assert one[0] == one[1] == pytest.approx(eight[0])
    assert eight[1] > eight[0]
