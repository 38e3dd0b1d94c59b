"""Router, auxiliary losses and MaxVio against values computed by hand or by autograd."""

from __future__ import annotations

import pytest
import torch
from small_training import Trainings, equal_bits, small_config

from contracts.events import CheckpointSaved
from trainer import BalanceConfig, MoeConfig, Parts
from trainer.corpus import Corpus
from trainer.loader import Loader
from trainer.model import LanguageModel
from trainer.parts import balance_loss
from trainer.router import by_rank, expert_load, max_violation, route, z_loss
from trainer.targets import Sequences
from trainer.weights import initial_weights


def test_max_violation_of_known_loads() -> None:
    """Shows R801-3.3: (max load - mean load) / mean load."""
    counts = torch.tensor([[4.0, 4.0, 4.0, 4.0], [10.0, 2.0, 2.0, 2.0], [16.0, 0.0, 0.0, 0.0], [5.0, 4.0, 4.0, 3.0]])
    assert max_violation(counts).tolist() == [0.0, 1.5, 3.0, 0.25]
    assert max_violation(counts / 16).tolist() == [0.0, 1.5, 3.0, 0.25]


def test_load_is_counted_per_rank() -> None:
    """Two ranks of two sequences with two tokens; sequence i belongs to rank i % 2."""
    choice_KT = torch.tensor([[0, 0, 1, 1, 0, 2, 1, 2]])  # sequences: (0 0) (1 1) (0 2) (1 2)
    chosen_ET = torch.zeros(3, 8).scatter_(0, choice_KT, 1.0)
    (load_RE,) = expert_load(chosen_ET[None], top_k=1, dp_size=2, seq_len=2)
    assert load_RE.tolist() == [[0.75, 0.0, 0.25], [0.0, 0.75, 0.25]]
    assert max_violation(load_RE).tolist() == pytest.approx([1.25, 1.25])  # each rank overloads another expert,
    assert max_violation(load_RE.mean(dim=0)).item() == pytest.approx(0.125)  # the global batch hardly


@pytest.mark.parametrize("gate", ["softmax", "sigmoid"])
def test_gate(gate: str) -> None:
    x_TD = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    weights = {"weight": torch.tensor([[2.0, 0.0], [1.0, 3.0], [0.0, 1.0]])}
    routing = route(x_TD, weights, "", MoeConfig(num_experts=3, top_k=2, gate=gate))
    logits_TE = torch.tensor([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0]])
    score_TE = logits_TE.softmax(dim=1) if gate == "softmax" else logits_TE.sigmoid()
    assert routing.choice_KT.t().tolist() == [[0, 1], [1, 2]]
    expected_TK = torch.stack([score_TE[0, [0, 1]], score_TE[1, [1, 2]]])
    torch.testing.assert_close(routing.weight_KT.t(), expected_TK / expected_TK.sum(dim=1, keepdim=True))
    torch.testing.assert_close(routing.probs_ET.t(), score_TE / score_TE.sum(dim=1, keepdim=True))
    torch.testing.assert_close(routing.logits_ET.t(), logits_TE)


def test_router_bias_moves_the_choice() -> None:
    weights = {"weight": torch.zeros(3, 2), "bias": torch.tensor([0.0, 1.0, 2.0])}
    routing = route(torch.ones(1, 2), weights, "", MoeConfig(num_experts=3, top_k=1, router_bias=True))
    assert routing.choice_KT.item() == 2


@pytest.mark.parametrize("gate", ["softmax", "sigmoid"])
def test_choice_bias_moves_the_choice_only(gate: str) -> None:
    """Wang et al. eq. 3: the weights stay those of the unbiased scores, and no gradient reaches the bias."""
    x_TD = torch.tensor([[1.0, 0.5]])
    bias = torch.tensor([0.0, 0.0, 5.0])
    weights = {"weight": torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 0.0]]), "choice_bias": bias}
    config = MoeConfig(num_experts=3, top_k=2, gate=gate, choice_bias=True, renormalise=False)
    routing = route(x_TD, weights, "", config)
    plain = route(x_TD, weights, "", config.with_overrides({"choice_bias": False, "top_k": 3}))
    assert routing.choice_KT[:, 0].tolist() == [2, 0]
    scores = dict(zip(plain.choice_KT[:, 0].tolist(), plain.weight_KT[:, 0].tolist(), strict=True))
    assert routing.weight_KT[:, 0].tolist() == [scores[2], scores[0]]
    assert torch.equal(routing.probs_ET, plain.probs_ET)


def test_choice_bias_balances_and_is_kept(trainings: Trainings, new_trainings) -> None:
    """Without any balance loss it evens out the load over time; a resume goes on with it, bit for bit."""

    def late(metrics: dict[int, dict[str, float]]) -> float:
        """MaxVio of the load over twenty steps: so small a model moves whole batches from expert to expert."""
        names = [f"expert_load/layers.0/experts.{e}" for e in range(4)]
        return max(sum(metrics[step][name] for step in range(41, 61)) / 20 for name in names) - 1.0

    plain = small_config(steps=60, moe__balance__coef=0.0, checkpoint__every=30)
    biased = plain.with_overrides({"moe.choice_bias": True, "moe.choice_bias_rate": 0.02})
    whole = trainings.here(biased)
    assert late(whole.metrics) < 0.5 * late(new_trainings().here(plain).metrics)
    middle = whole.of(CheckpointSaved)[0]
    assert middle.step == 30
    again = new_trainings().here(biased, start_checkpoint=middle.path)
    assert again.metrics == {step: values for step, values in whole.metrics.items() if step > 30}
    assert again.of(CheckpointSaved)[-1].sha256 == whole.of(CheckpointSaved)[-1].sha256


def test_z_loss_by_hand() -> None:
    """Mean over tokens of the squared log-sum-exp of the logits."""
    logits_ET = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    log2 = torch.tensor(2.0).log()
    torch.testing.assert_close(z_loss(logits_ET[None]), ((log2**2 + (1 + log2) ** 2) / 2)[None])


def _routed(dp_size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Leaf logits [E, T] of eight sequences of four tokens, with the ranks' probabilities and loads."""
    logits_ET = torch.randn(4, 32, generator=torch.Generator().manual_seed(3), requires_grad=True)
    probs_ET = logits_ET.softmax(dim=0)
    chosen_ET = torch.zeros(4, 32).scatter_(0, probs_ET.topk(2, dim=0).indices, 1.0)
    return logits_ET, by_rank(probs_ET[None], dp_size, 4)[0], expert_load(chosen_ET[None], 2, dp_size, 4)[0]


@pytest.mark.parametrize("dp_size", [2, 4, 8])
def test_global_balance_equals_the_concatenated_batch(dp_size: int) -> None:
    """Shows R801-7.12: loss and gradient over the ranks are those of one rank that holds the whole batch."""
    logits_ET, probs_RNE, load_RE = _routed(dp_size)
    one_logits_ET, one_probs_RNE, one_load_RE = _routed(1)
    spread = balance_loss(0, probs_RNE, load_RE, BalanceConfig(scope="global"))
    concatenated = balance_loss(0, one_probs_RNE, one_load_RE, BalanceConfig(scope="global"))
    torch.testing.assert_close(spread, concatenated)
    spread.backward()
    concatenated.backward()
    torch.testing.assert_close(logits_ET.grad, one_logits_ET.grad)


def test_micro_balance_is_the_mean_of_the_ranks() -> None:
    """Shows R801-7.12: with scope micro each rank is balanced for itself, which is another loss."""
    _, probs_RNE, load_RE = _routed(4)
    ranks = [balance_loss(0, probs_RNE[r : r + 1], load_RE[r : r + 1], BalanceConfig()) for r in range(4)]
    micro = balance_loss(0, probs_RNE, load_RE, BalanceConfig(scope="micro"))
    torch.testing.assert_close(micro, torch.stack(ranks).mean())
    assert micro > balance_loss(0, probs_RNE, load_RE, BalanceConfig(scope="global")) + 1e-3


def test_even_load_gives_one() -> None:
    even_RNE, even_RE = torch.full((2, 3, 4), 0.25), torch.full((2, 4), 0.25)
    assert balance_loss(0, even_RNE, even_RE, BalanceConfig()).item() == 1.0


def test_penalties_that_are_off_change_nothing(corpus: Corpus) -> None:
    """Shows R801-7.12: with coefficient 0, and from `until_step` on, the gradient is the LM loss's, bit for bit."""

    def gradients(**overrides: float) -> dict[str, torch.Tensor]:
        config = small_config(**overrides)
        weights = {name: w.requires_grad_() for name, w in initial_weights(config).items()}
        tokens = Loader(config, Parts(), corpus, None, 0).read(0).sequences.tokens_BS
        loss = LanguageModel(config, Parts()).forward(weights, Sequences(tokens_BS=tokens), step=5).loss
        return dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))

    off = gradients(moe__balance__coef=0.0, moe__z_loss__coef=0.0)
    ended = gradients(moe__balance__until_step=5, moe__z_loss__until_step=5)
    on = gradients()
    assert all(equal_bits(off[name], ended[name]) for name in off)
    assert not equal_bits(off["layers.0.router.weight"], on["layers.0.router.weight"])


def test_layer_without_balance_departs(trainings: Trainings, new_trainings) -> None:
    """A project's own balance loss that skips a layer shows in that layer's MaxVio."""

    def skips_layer_1(layer, probs_RNE, load_RE, config):
        return balance_loss(layer, probs_RNE, load_RE, config) * (layer != 1)

    config = small_config(steps=50, moe__balance__coef=0.1, optim__router__lr=0.02, checkpoint__every=60)
    with_all = trainings.here(config).metrics
    without = new_trainings().here(config, Parts(balance_loss=skips_layer_1)).metrics

    def late(metrics: dict[int, dict[str, float]], name: str) -> float:
        return sum(metrics[step][name] for step in range(31, 51)) / 20

    assert late(without, "max_vio/layers.1") > 1.3 * late(with_all, "max_vio/layers.1")
    assert late(without, "max_vio/layers.0") < 1.3 * late(with_all, "max_vio/layers.0")
