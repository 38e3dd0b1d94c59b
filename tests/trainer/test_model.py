"""The model's pieces against obvious references and autograd."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from small_training import small_config
from torch.nn import functional

from trainer import ModelConfig, MoeConfig, Parts, Recipe
from trainer.attention import AttentionTables, attention
from trainer.corpus import Corpus
from trainer.experts import Assignments, routed_experts, shared_experts
from trainer.loader import Loader
from trainer.model import LanguageModel
from trainer.norm import rms_norm
from trainer.targets import Sequences
from trainer.training import Training
from trainer.weights import initial_weights, num_parameters, parameter_shapes


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.mark.parametrize("weight_shape", [(6,), (3, 6)])
def test_rms_norm_equals_torch(weight_shape: tuple[int, ...]) -> None:
    x, weight = random(2, 3, 6), random(*weight_shape, seed=1)
    expected = functional.rms_norm(x, (6,), None, 1e-5) * weight
    grad = random(2, 3, 6, seed=2).detach()
    ours = rms_norm(x, weight, 1e-5)
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(
        torch.autograd.grad(ours, (x, weight), grad), torch.autograd.grad(expected, (x, weight), grad)
    )


def reference_experts(x_TD, weight_KT, choice_KT, gate, up, down):
    """Token by token."""
    rows = []
    for token, x in enumerate(x_TD):
        total = torch.zeros_like(x)
        for weight, expert in zip(weight_KT[:, token], choice_KT[:, token].tolist(), strict=True):
            total = total + weight * (functional.silu(gate[expert] @ x) * (up[expert] @ x)) @ down[expert]
        rows.append(total)
    return torch.stack(rows)


@pytest.mark.parametrize("choices", [[[0, 1, 2, 0, 1], [1, 2, 0, 2, 0]], [[3, 3, 3, 3, 3]]])
def test_routed_experts_equal_the_loop(choices: list[list[int]]) -> None:
    """Also when experts get no token: their gradient is zero, not garbage."""
    choice_KT = torch.tensor(choices)
    tensors = [random(5, 8), random(len(choices), 5, seed=1), *(random(4, 4, 8, seed=s) for s in (2, 3, 4))]
    chosen_ET = torch.zeros(4, 5).scatter_(0, choice_KT, 1.0)
    x, weight, gate, up, down = tensors
    ours = routed_experts(x, weight, Assignments.sort(choice_KT, chosen_ET), gate, up, down)
    expected = reference_experts(x, weight, choice_KT, gate, up, down)
    torch.testing.assert_close(ours, expected)
    grad = random(5, 8, seed=5).detach()
    torch.testing.assert_close(torch.autograd.grad(ours, tensors, grad), torch.autograd.grad(expected, tensors, grad))


def test_shared_experts_equal_the_loop() -> None:
    x, gate, up, down = random(5, 8), *(random(2, 4, 8, seed=s) for s in (2, 3, 4))
    both = torch.tensor([[0] * 5, [1] * 5])
    torch.testing.assert_close(
        shared_experts(x, gate, up, down), reference_experts(x, torch.ones(2, 5), both, gate, up, down)
    )


def rotated_by_hand(x_BHSC: torch.Tensor, base: float) -> torch.Tensor:
    """Pair by pair, position by position."""
    columns = []
    for position in range(x_BHSC.shape[2]):
        for pair in range(x_BHSC.shape[3] // 2):
            angle = position * base ** (-2 * pair / x_BHSC.shape[3])
            a, b = x_BHSC[:, :, position, 2 * pair], x_BHSC[:, :, position, 2 * pair + 1]
            columns += [a * math.cos(angle) - b * math.sin(angle), a * math.sin(angle) + b * math.cos(angle)]
    return torch.stack(columns, dim=-1).view_as(x_BHSC)


@pytest.mark.parametrize("qk_norm", [True, False])
def test_attention_equals_the_library(qk_norm: bool) -> None:
    """Grouped queries, query and key norms, rotary positions and causality, forward and backward."""
    config = ModelConfig(d_model=16, num_heads=4, num_kv_heads=2, head_dim=8, qk_norm=qk_norm, attention_scale=1.5)
    weights = {f"{name}_proj.weight": random(32 if name == "q" else 16, 16, seed=i) for i, name in enumerate("qkv")}
    weights["o_proj.weight"] = random(16, 32, seed=5)
    if qk_norm:
        weights |= {"q_norm.weight": random(8, seed=6), "k_norm.weight": random(8, seed=7)}
    x = random(2, 6, 16, seed=8)
    ours = attention(x, weights, "", config, AttentionTables.build(config, 6))

    def heads(name: str) -> torch.Tensor:
        return functional.linear(x, weights[f"{name}_proj.weight"]).view(2, 6, -1, 8).transpose(1, 2)

    def turned(name: str) -> torch.Tensor:
        gain = weights[f"{name}_norm.weight"] if qk_norm else None
        vectors = functional.rms_norm(heads(name), (8,), gain, config.norm_eps) if qk_norm else heads(name)
        return rotated_by_hand(vectors, config.rope_base)

    out = functional.scaled_dot_product_attention(
        turned("q"), turned("k"), heads("v"), is_causal=True, enable_gqa=True, scale=1.5 / math.sqrt(8)
    )
    expected = functional.linear(out.transpose(1, 2).flatten(2), weights["o_proj.weight"])
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)
    leaves, grad = [x, *weights.values()], random(2, 6, 16, seed=9).detach()
    gradients = [torch.autograd.grad(out, leaves, grad) for out in (ours, expected)]
    torch.testing.assert_close(*gradients, atol=1e-3, rtol=1e-3)


def test_later_tokens_do_not_leak() -> None:
    config = small_config()
    weights = initial_weights(config)
    tokens = torch.randint(0, 256, (8, 17), generator=torch.Generator().manual_seed(1))
    changed = tokens.clone()
    changed[:, -1] = 255 - changed[:, -1]
    model = LanguageModel(config, Parts())

    def logits(tokens_BS: torch.Tensor) -> torch.Tensor:
        return model.forward(weights, Sequences(tokens_BS=tokens_BS), 0).logits_LET.view(2, 4, 8, 16)

    before, after = (logits(t) for t in (tokens, changed))
    assert torch.equal(before, after)  # the last token is only a target
    changed[:, -2] = 255 - changed[:, -2]
    after = logits(changed)
    assert torch.equal(before[..., :-1], after[..., :-1])
    assert not torch.equal(before[..., -1], after[..., -1])


def test_full_size_is_counted_without_allocation() -> None:
    """Shows R801-7.1: 48 layers of 128 experts top-8, about 30 billion parameters (with a byte vocabulary)."""
    shapes = parameter_shapes(
        ModelConfig(num_layers=48, d_model=2048, num_heads=32, num_kv_heads=4, head_dim=128, qk_norm=True),
        MoeConfig(num_experts=128, top_k=8, d_expert=768),
    )
    assert round(num_parameters(shapes) / 1e9, 1) == 29.9
    per_expert = 3 * 2048 * 768
    active = num_parameters(shapes) - 48 * (128 - 8) * per_expert
    assert 2.5e9 < active < 3.5e9


def test_initial_weights_depend_on_seed_and_name_only() -> None:
    plain, biased = initial_weights(small_config()), initial_weights(small_config(moe__router_bias=True))
    assert all(torch.equal(plain[name], biased[name]) for name in plain)
    assert set(biased) - set(plain) == {"layers.0.router.bias", "layers.1.router.bias"}
    other = initial_weights(small_config(seed=2))
    assert not torch.equal(plain["embedding.weight"], other["embedding.weight"])


def test_a_later_stage_has_its_own_rotation_and_length(corpus: Corpus) -> None:
    """R801-7.3: a longer stage goes on from the same weights and optimizer state with another rotary base."""
    clock = itertools.count(0.0).__next__
    first = Training(Recipe(config=small_config()), corpus, None, clock)
    for _ in range(3):
        first.advance()
    state = first.state()
    weights = {name: weight.clone() for name, weight in state.weights.items()}
    config = small_config(model__rope_base=5e5, data__seq_len=32)
    second = Training(Recipe(config=config), corpus, state, clock)
    assert all(torch.equal(weight, weights[name]) for name, weight in second.state().weights.items())
    assert {parameter.age for parameter in second.state().optimizer.values()} == {3}
    sequences = Loader(config, Parts(), corpus, state.loader, 3).read(3).sequences
    losses = [
        float(LanguageModel(c, Parts()).forward(weights, sequences, 3).lm_loss)
        for c in (config, config.with_overrides({"model.rope_base": 1e4}))
    ]
    assert second.advance().values["lm_loss"] == pytest.approx(losses[0], rel=1e-6)
    assert losses[0] != losses[1]
