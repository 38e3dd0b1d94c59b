"""The balance loss and every gradient are those of the whole batch, however a step is split and computed."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from small_training import equal_bits, small_config
from torch import Tensor

from contracts.events import Scalar
from trainer import BalanceConfig, Parts, Recipe, TrainConfig
from trainer.backward import StepGradients, step_gradients
from trainer.balance import moved_choice_biases, normalised
from trainer.corpus import Corpus
from trainer.loader import Loader
from trainer.model import LanguageModel
from trainer.parts import balance_loss
from trainer.router import by_rank
from trainer.stopwatch import Stopwatch
from trainer.targets import Sequences
from trainer.training import Training
from trainer.weights import initial_buffers, initial_weights

PADDING = -1
LARGE: dict[str, Scalar] = {"moe.balance.coef": 1.0, "moe.z_loss.coef": 0.1, "data.batch_size": 8}


def batch(seed: int = 1) -> Sequences:
    """Eight rows of packed documents, some with a padded tail of very unequal length."""
    generator = torch.Generator().manual_seed(seed)
    tokens_BS = torch.randint(0, 256, (8, 17), generator=generator)
    document_BS = (torch.rand(8, 17, generator=generator) < 0.2).cumsum(dim=1)
    for row, length in ((1, 9), (2, 4), (5, 15), (6, 0)):
        document_BS[row, length:] = PADDING
    return Sequences(tokens_BS=tokens_BS, document_BS=document_BS)


def plain(sequences: Sequences) -> Sequences:
    return Sequences(tokens_BS=sequences.tokens_BS)


def computed(config: TrainConfig, sequences: Sequences, step: int = 0) -> tuple[dict[str, Tensor], StepGradients]:
    """Gradients by name."""
    weights = {name: w.requires_grad_() for name, w in initial_weights(config).items()}
    watch = Stopwatch(itertools.count(0.0).__next__, has_laps=False)
    model, everything = LanguageModel(config, Parts()), weights | initial_buffers(config)
    torch.manual_seed(step)
    found = step_gradients(model, everything, [*weights], sequences, step, config, watch)
    return dict(zip(weights, found.grads, strict=True)), found


def config_of(**overrides: Scalar) -> TrainConfig:
    return small_config().with_overrides(LARGE | {k.replace("__", "."): v for k, v in overrides.items()})


SPLITS: list[dict[str, Scalar]] = [
    {"parallel.dp_size": dp, "parallel.accumulation": parts, "parallel.cp_size": cp}
    for dp, parts, cp in ((1, 1, 1), (2, 1, 1), (8, 1, 1), (1, 8, 1), (2, 4, 1), (4, 2, 1), (2, 2, 2), (1, 1, 4))
]


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("gate", ["softmax", "sigmoid"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradients_do_not_depend_on_the_split(is_packed: bool, gate: str, checkpointing: bool) -> None:
    """Shows R801-7.12: every parameter's gradient to 1e-6 over data-parallel, accumulation and context-parallel splits.

    The auxiliary coefficients are so large that the router's gradient is mostly theirs.
    """
    sequences = batch() if is_packed else plain(batch())
    common: dict[str, Scalar] = {"moe.gate": gate, "mtp.num_modules": 1}
    whole, first = computed(config_of(parallel__dp_size=1).with_overrides(common), sequences)
    without, _ = computed(config_of(parallel__dp_size=1, moe__balance__coef=0.0).with_overrides(common), sequences)
    assert (whole["layers.0.router.weight"] - without["layers.0.router.weight"]).abs().max() > 1e-3
    for split in SPLITS:
        more = common | split | {"numerics.activation_checkpointing": checkpointing}
        grads, found = computed(config_of().with_overrides(more), sequences)
        for name in whole:
            torch.testing.assert_close(grads[name], whole[name], atol=1e-6, rtol=0)
        for value in ("loss", "lm_loss", "mtp_K", "balance_L", "z_L"):
            torch.testing.assert_close(getattr(found.forward, value), getattr(first.forward, value).detach())
        assert torch.equal(found.forward.count_LE, first.forward.count_LE)


def test_accumulation_draws_the_same_jitter_in_both_passes() -> None:
    """The counting pass must not move the random numbers of the pass that learns."""
    config = config_of(parallel__dp_size=1, parallel__accumulation=4, moe__router_jitter=0.3)
    with_count, found = computed(config, plain(batch()))
    without_count, other = computed(config.with_overrides({"moe.balance.scope": "micro"}), plain(batch()))
    assert torch.equal(found.forward.count_LE, other.forward.count_LE)
    assert not torch.equal(with_count["layers.0.router.weight"], without_count["layers.0.router.weight"])


def test_micro_scope_sees_the_splits() -> None:
    """Each rank and pass balances for itself, so the loss grows with their number."""
    losses = []
    for dp, parts, cp in ((1, 1, 1), (2, 1, 1), (2, 2, 1), (2, 2, 2)):
        config = config_of(parallel__dp_size=dp, parallel__accumulation=parts, parallel__cp_size=cp)
        _, found = computed(config.with_overrides({"moe.balance.scope": "micro"}), plain(batch()))
        losses.append(float(found.forward.balance_L.mean()))
    assert losses == sorted(losses)
    assert losses[-1] > losses[0] + 0.01


@pytest.mark.parametrize("scope", ["micro", "global"])
def test_padding_never_counts(scope: str) -> None:
    """Other padding tokens change neither a loss nor a load nor a gradient, and nobody counts them."""
    sequences = batch()
    noise = torch.randint(0, 256, sequences.tokens_BS.shape, generator=torch.Generator().manual_seed(9))
    assert sequences.document_BS is not None
    other = replace(sequences, tokens_BS=torch.where(sequences.document_BS < 0, noise, sequences.tokens_BS))
    config = config_of(moe__balance__scope=scope, mtp__num_modules=2, loss__head_z_coef=0.1)
    (one, first), (two, second) = computed(config, sequences), computed(config, other)
    num_real = int((sequences.document_BS[:, :-1] >= 0).sum())
    assert first.forward.count_LE.sum(dim=1).tolist()[:2] == [2.0 * num_real] * 2
    assert first.forward.count_LE[2:].sum() < 2 * 2 * num_real
    for value in ("loss", "lm_loss", "balance_L", "z_L", "mtp_K", "load_LRE", "count_LE", "sequence_loss_B"):
        assert torch.equal(getattr(first.forward, value), getattr(second.forward, value)), value
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_checkpointing_gives_equal_bits_and_keeps_less() -> None:
    """Nothing is counted twice, also with jitter, and the memory kept for the backward pass falls."""
    kept: list[int] = []

    def measured(checkpointing: bool) -> dict[str, Tensor]:
        config = config_of(moe__router_jitter=0.2, numerics__activation_checkpointing=checkpointing)
        sizes: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            sizes[tensor.data_ptr()] = tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            grads, _ = computed(config, plain(batch()))
        kept.append(sum(sizes.values()))
        return grads

    whole, again = measured(False), measured(True)
    assert all(equal_bits(whole[name], again[name]) for name in whole)
    assert kept[1] < 0.5 * kept[0]


def test_balance_loss_is_at_least_one_when_load_follows_probability() -> None:
    """Chebyshev's sum inequality: load and probability in the same order give at least 1, and 1 only when one is even.

    A router can beat it: of the three tokens below two barely prefer expert 0, so the fuller expert is the less
    probable one.
    """
    generator = torch.Generator().manual_seed(4)
    for _ in range(200):
        load, probs = (torch.rand(2, 8, generator=generator).sort(dim=1).values for _ in range(2))
        load, probs = load / load.sum(dim=1, keepdim=True), probs / probs.sum(dim=1, keepdim=True)
        for scope in ("micro", "global"):
            assert balance_loss(0, probs.unsqueeze(1), load, BalanceConfig(scope=scope)) >= 1.0 - 1e-6
    even = torch.full((1, 8), 1 / 8)
    assert balance_loss(0, probs[:1].unsqueeze(1), even, BalanceConfig()).item() == pytest.approx(1.0)
    tokens = torch.tensor([[[0.51, 0.49], [0.51, 0.49], [0.0, 1.0]]])
    assert balance_loss(0, tokens, torch.tensor([[2 / 3, 1 / 3]]), BalanceConfig()) < 1.0


@pytest.mark.parametrize("cp_size", [2, 3])
def test_zig_zag_chunks(cp_size: int) -> None:
    """Rank c has chunks c and 2 * cp - 1 - c: equal causal work."""
    seq_len = 4 * cp_size
    position = torch.arange(2 * seq_len, dtype=torch.float32).view(1, 1, -1) % seq_len  # two sequences, one rank
    ranks = by_rank(position, 1, seq_len, cp_size)[0, :, :, 0]
    for rank, positions in enumerate(ranks.tolist()):
        mine = [chunk * 2 + i for chunk in (rank, 2 * cp_size - 1 - rank) for i in range(2)]
        assert positions == mine * 2
    assert len({float(positions.sum()) for positions in ranks}) == 1


@pytest.mark.parametrize("documents", ["stream", "packed"])
def test_every_parameter_counts_once_in_the_gradient_norm(documents: str, corpus: Corpus) -> None:
    """However the step is split; also an embedding that is input, head and an MTP module's embedding at once."""
    common = config_of(model__tie_embeddings=True, mtp__num_modules=1, data__documents=documents)
    norms = []
    for split in SPLITS:
        training = Training(Recipe(config=common.with_overrides(split)), corpus, None, itertools.count(0.0).__next__)
        norms.append(training.advance().values["grad_norm"])
    config = common.with_overrides({"parallel.dp_size": 1})
    grads, _ = computed(config, Loader(config, Parts(), corpus, None, 0).read(0).sequences)
    whole = torch.cat([grad.flatten() for grad in grads.values()]).norm()
    assert norms == pytest.approx([float(whole)] * len(SPLITS), rel=1e-5)


def test_choice_bias_moves_by_the_sign_of_the_excess() -> None:
    """Wang et al. algorithm 1: up where the load is under the mean, down above it, still at it; exact in float32."""
    before = {"layers.0.router.choice_bias": torch.tensor([0.5, 0.0, 0.0, 0.0])}
    after = moved_choice_biases(before, torch.tensor([[10.0, 4.0, 6.0, 4.0]]), 1e-3, only_mtp=False)
    expected = torch.tensor([0.5 - 1e-3, 1e-3, 0.0, 1e-3])
    assert torch.equal(after["layers.0.router.choice_bias"], expected)
    assert moved_choice_biases(before, torch.ones(1, 4), 1.0, only_mtp=True) == before


def test_loads_are_normalised_without_tokens() -> None:
    assert normalised(torch.zeros(1, 4)).tolist() == [[0.0] * 4]
