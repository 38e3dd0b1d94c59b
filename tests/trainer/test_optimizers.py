"""Parameter groups, AdamW and Muon."""

from __future__ import annotations

import pytest
import torch
from small_training import small_config

from contracts.errors import ConfigError
from trainer import GroupConfig, OptimConfig, TrainConfig
from trainer.config import GROUPS, MuonConfig
from trainer.groups import assign_groups, module_of
from trainer.muon import orthogonalise
from trainer.optim import Optimizer
from trainer.parts import parameter_group
from trainer.weights import parameter_shapes


def random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def table(**rows: GroupConfig) -> OptimConfig:
    return OptimConfig(**rows)


def test_every_parameter_is_in_exactly_one_group() -> None:
    """Shows R801-7.2: experts and attention matrices on Muon, everything else on AdamW."""
    config = TrainConfig().with_overrides(
        {"moe.router_bias": True, "model.attention_bias": True, "moe.num_shared_experts": 1}
    )
    shapes = parameter_shapes(config.model, config.moe)
    groups = assign_groups(shapes, parameter_group, config.optim)
    assert set(groups) == set(shapes)
    assert set(groups.values()) == set(GROUPS)
    on_muon = {name for name in groups if config.optim.group(groups[name]).optimizer == "muon"}
    assert on_muon == {name for name in shapes if "_proj.weight" in name or "experts" in name}
    assert groups["layers.3.router.weight"] == "router"
    assert groups["layers.3.router.bias"] == groups["layers.3.attn.q_proj.bias"] == "bias"


def test_norms_and_biases_are_not_decayed() -> None:
    """Shows R801-3.19 and R801-7.2."""
    config = TrainConfig().with_overrides({"moe.router_bias": True, "model.attention_bias": True})
    shapes = parameter_shapes(config.model, config.moe)
    groups = assign_groups(shapes, parameter_group, config.optim)
    for name in shapes:
        if "norm" in name or name.endswith(".bias"):
            assert config.optim.group(groups[name]).weight_decay == 0.0, name
    decayed = {group for group in GROUPS if config.optim.group(group).weight_decay}
    assert decayed == {"embedding", "head", "router", "attention", "experts"}


def test_unknown_group_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"parameter_group\('embedding.weight'\) gave 'heads'"):
        assign_groups({"embedding.weight": (4, 4)}, lambda name, ndim: "heads", OptimConfig())


def test_modules_of_the_metrics() -> None:
    shapes = parameter_shapes(small_config().model, small_config().moe)
    assert {module_of(name) for name in shapes} == {
        "embedding", "head", "final_norm",
        *(f"layers.{i}.{part}" for i in range(2) for part in ("attn", "router", "experts", "norm")),
    }  # fmt: skip


def test_adamw_equals_torch() -> None:
    """Five steps with decay, two parameters in one bucket."""
    row = GroupConfig(lr=1e-2, weight_decay=0.1, beta1=0.9, beta2=0.95, eps=1e-8)
    values = {"head.weight": random(4, 3, seed=1), "embedding.weight": random(5, 3, seed=2)}
    theirs = {name: value.clone().requires_grad_() for name, value in values.items()}
    ours = Optimizer(values, dict.fromkeys(values, "head"), table(head=row), MuonConfig(), {})
    reference = torch.optim.AdamW(theirs.values(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1, eps=1e-8)
    for step in range(5):
        grads = {name: random(*value.shape, seed=10 + step) for name, value in values.items()}
        ours.step([grads[name] for name in ours.names], scale=0.5, multiplier=1.0)
        for name, value in theirs.items():
            value.grad = grads[name] * 0.5
        reference.step()
    for name, value in theirs.items():
        torch.testing.assert_close(ours.weights[name], value)


@pytest.mark.parametrize("shape", [(16, 8), (8, 16)])
def test_muon_goes_where_torch_goes(shape: tuple[int, int]) -> None:
    """R801-7.11: same direction and size as torch.optim.Muon with RMS matched to AdamW (it rounds to bfloat16)."""
    value = random(*shape, seed=1)
    theirs = value.clone().requires_grad_()
    row = GroupConfig(optimizer="muon", lr=1e-2, weight_decay=0.1, beta1=0.95, eps=1e-7)
    ours = Optimizer({"w": value}, {"w": "attention"}, table(attention=row), MuonConfig(), {})
    reference = torch.optim.Muon(
        [theirs], lr=1e-2, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw", eps=1e-7
    )
    for step in range(4):
        before = theirs.detach().clone()
        theirs.grad = random(*shape, seed=10 + step)
        ours.step([theirs.grad], scale=1.0, multiplier=1.0)
        reference.step()
        ours_moved, theirs_moved = ours.weights["w"].detach() - before, theirs.detach() - before
        cosine = torch.nn.functional.cosine_similarity(ours_moved.flatten(), theirs_moved.flatten(), dim=0)
        assert cosine > 0.999
        assert ours_moved.norm() / theirs_moved.norm() == pytest.approx(1.0, abs=0.02)
        with torch.no_grad():
            ours.weights["w"].copy_(theirs)


def test_muon_orthogonalises_each_matrix_of_a_stack() -> None:
    """Singular values end in the band of the quintic, singular vectors stay; a stack equals its matrices one by one."""
    stack = random(3, 12, 8, seed=1)
    result = orthogonalise(stack, iterations=5, eps=1e-7)
    singular = torch.linalg.svdvals(result)
    assert singular.min() > 0.3
    assert singular.max() < 1.3
    for matrix, out in zip(stack, result, strict=True):
        u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
        assert torch.nn.functional.cosine_similarity(out.flatten(), (u @ vh).flatten(), dim=0) > 0.97
        torch.testing.assert_close(orthogonalise(matrix[None], 5, 1e-7)[0], out)


def test_muon_takes_heads_apart() -> None:
    """With `split_heads` each head's rows move as a matrix of their own; output and expert matrices stay whole."""
    row = GroupConfig(optimizer="muon", lr=1.0, eps=1e-7)
    names = ("layers.0.attn.q_proj.weight", "layers.0.attn.o_proj.weight")
    grads = {name: random(8, 8, seed=seed) for seed, name in enumerate(names)}
    moved = {}
    for split in (False, True):
        values = {name: torch.zeros(8, 8) for name in names}
        muon = MuonConfig(split_heads=split)
        optimizer = Optimizer(values, dict.fromkeys(names, "attention"), table(attention=row), muon, {}, head_dim=4)
        optimizer.step([grads[name] for name in optimizer.names], scale=1.0, multiplier=1.0)
        moved[split] = {name: weight.detach() for name, weight in optimizer.weights.items()}
        assert set(optimizer.states()) == set(names)
    assert torch.equal(moved[True][names[1]], moved[False][names[1]])
    for head in range(2):
        rows = slice(4 * head, 4 * head + 4)
        alone = Optimizer({"w": torch.zeros(4, 8)}, {"w": "attention"}, table(attention=row), MuonConfig(), {})
        alone.step([grads[names[0]][rows]], scale=1.0, multiplier=1.0)
        torch.testing.assert_close(moved[True][names[0]][rows], alone.weights["w"].detach())
    assert not torch.allclose(moved[True][names[0]], moved[False][names[0]])


@pytest.mark.parametrize("shape", [(6, 12, 8), (6, 8, 12)])
def test_muon_over_experts_equals_a_loop_of_torch(shape: tuple[int, int, int]) -> None:
    """One batched update of stacked experts goes where torch.optim.Muon takes each of them (it rounds to bfloat16)."""
    value, grad = random(*shape, seed=1), random(*shape, seed=2)
    row = GroupConfig(optimizer="muon", lr=1e-2, weight_decay=0.1, beta1=0.95, eps=1e-7)
    ours = Optimizer({"w": value}, {"w": "experts"}, table(experts=row), MuonConfig(), {})
    ours.step([grad], scale=1.0, multiplier=1.0)
    for expert, start in enumerate(value):
        weight = start.clone().requires_grad_()
        weight.grad = grad[expert].clone()
        torch.optim.Muon(
            [weight], lr=1e-2, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw", eps=1e-7
        ).step()
        ours_moved, theirs_moved = ours.weights["w"].detach()[expert] - start, weight.detach() - start
        assert torch.nn.functional.cosine_similarity(ours_moved.flatten(), theirs_moved.flatten(), dim=0) > 0.999
        assert ours_moved.norm() / theirs_moved.norm() == pytest.approx(1.0, abs=0.02)


def test_muon_update_has_the_rms_of_adamw() -> None:
    """R801-7.11: 0.2 per unit of learning rate, for tall, wide and stacked matrices."""
    row = GroupConfig(optimizer="muon", lr=1.0)
    values = {"a": torch.zeros(32, 8), "b": torch.zeros(8, 32), "c": torch.zeros(4, 8, 16)}
    optimizer = Optimizer(values, dict.fromkeys(values, "experts"), table(experts=row), MuonConfig(), {})
    optimizer.step([random(*values[name].shape, seed=3) for name in optimizer.names], scale=1.0, multiplier=1.0)
    for weight in optimizer.weights.values():
        assert 0.14 < weight.detach().square().mean().sqrt() < 0.24


def test_zero_gradient_moves_nothing() -> None:
    for kind in ("adamw", "muon"):
        value = random(4, 4, seed=1)
        row = GroupConfig(optimizer=kind, lr=0.1)
        optimizer = Optimizer({"w": value}, {"w": "experts"}, table(experts=row), MuonConfig(), {})
        moved = optimizer.step([torch.zeros(4, 4)], scale=1.0, multiplier=1.0)
        assert torch.equal(optimizer.weights["w"], value)
        assert moved["experts"] == 0.0


@pytest.mark.parametrize("shape", [(3, 5, 4), (4, 160, 80)])
def test_clipped_gradients_may_lie_in_memory_as_they_like(shape: tuple[int, ...]) -> None:
    """Small and large, in order, transposed and cut out of others: as scaled beforehand, and they stay as they are."""
    values = {name: random(*shape, seed=seed) for seed, name in enumerate(("a", "b"))}
    whole = random(shape[0], shape[2], 2 * shape[1], seed=7).mT
    grads = [whole[:, : shape[1]], random(*shape, seed=8)]
    before = [grad.clone() for grad in grads]
    one, two = (
        Optimizer(
            {n: v.clone() for n, v in values.items()}, dict.fromkeys(values, "experts"), table(), MuonConfig(), {}
        )
        for _ in range(2)
    )
    one.step(grads, 0.37, 1.0)
    two.step([(grad * 0.37).contiguous() for grad in grads], 1.0, 1.0)
    assert all(torch.equal(one.weights[name], two.weights[name]) for name in values)
    assert all(torch.equal(grad, kept) for grad, kept in zip(grads, before, strict=True))


def test_state_survives_and_starts_anew_when_the_optimizer_changes() -> None:
    """A parameter that moves to another optimizer does not inherit a state that means something else."""
    values = {"a": random(4, 4, seed=1), "b": random(4, 4, seed=2)}
    groups = {"a": "router", "b": "attention"}
    first = Optimizer(values, groups, OptimConfig(), MuonConfig(), {})
    first.step([random(4, 4, seed=3), random(4, 4, seed=4)], scale=1.0, multiplier=1.0)
    states = first.states()
    moved = Optimizer(values, {"a": "attention", "b": "attention"}, OptimConfig(), MuonConfig(), states).states()
    assert (moved["a"].age, moved["b"].age) == (0, 1)
    assert moved["a"].tensors["momentum"].abs().max() == 0.0
    assert torch.equal(moved["b"].tensors["momentum"], states["b"].tensors["momentum"])
    renamed = Optimizer(values, {"a": "head", "b": "attention"}, OptimConfig(), MuonConfig(), states).states()
    assert torch.equal(renamed["a"].tensors["second"], states["a"].tensors["second"])
