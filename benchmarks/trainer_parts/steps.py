"""A whole training step against the peer's: data, forward, backward, clipping, AdamW and, on our side, statistics."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.trainer_parts.peer import DTYPES, EXPERTS, PeerSteps, model_of
from benchmarks.trainer_parts.shapes import Shape
from kernels.measure import interleave, speedup
from trainer.backward import step_gradients
from trainer.config import TrainConfig
from trainer.corpus import load_corpus
from trainer.loader import Loader
from trainer.model import LanguageModel
from trainer.parts import Parts
from trainer.recipe import Recipe
from trainer.stopwatch import Stopwatch
from trainer.targets import Sequences
from trainer.training import Training
from trainer.weights import initial_weights

_TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2}
_COSINE = {"float32": 0.999_99, "bfloat16": 0.99}
_NO_PENALTY = {"moe__balance__coef": 0.0, "moe__z_loss__coef": 0.0}


@dataclass(frozen=True, kw_only=True)
class StepRatio:
    """speed: seconds of the faster peer / ours, median over the rounds."""

    shape: str
    compute: str
    speed: float
    by_peer: dict[str, float]
    tokens_per_s: float


def training_of(config: TrainConfig) -> Training:
    return Training(Recipe(config=config), load_corpus(config.data.corpus_bytes), None, time.perf_counter)


def batches_of(config: TrainConfig, count: int) -> list[Tensor]:
    """The tokens of the first steps, [B, S + 1] each."""
    loader = Loader(config, Parts(), load_corpus(config.data.corpus_bytes), None, 0)
    return [loader.read(step).sequences.tokens_BS for step in range(count)]


def measure(shape: Shape, compute: str, *, rounds: int) -> StepRatio:
    """Parity first. Raises AssertionError when loss or gradients differ."""
    config = shape.config(compute)
    batches = batches_of(config, 4)
    weights = initial_weights(config)
    peers = {experts: model_of(config, weights, experts, DTYPES[compute]) for experts in EXPERTS}
    check_parity(shape.config(compute, **_NO_PENALTY), peers["grouped_mm"], batches[0])
    ours = training_of(config)
    candidates: dict[str, Callable[[], object]] = {"ours": ours.advance}
    for experts, model in peers.items():
        candidates[experts] = PeerSteps(model, batches, 1e-4).advance
    times = interleave(candidates, rounds=rounds)
    by_peer = {experts: speedup(times, "ours", experts) for experts in EXPERTS}
    tokens = shape.batch_size * shape.seq_len
    return StepRatio(
        shape=shape.name,
        compute=compute,
        speed=min(by_peer.values()),
        by_peer=by_peer,
        tokens_per_s=tokens / sorted(times["ours"])[len(times["ours"]) // 2],
    )


def check_parity(config: TrainConfig, model: Any, tokens_BS: Tensor) -> None:
    """Loss and all gradients of one batch, ours brought into the peer's layout."""
    weights = {name: weight.requires_grad_() for name, weight in initial_weights(config).items()}
    names, language_model = [*weights], LanguageModel(config, Parts())
    watch = Stopwatch(time.perf_counter, has_laps=False)
    found = step_gradients(language_model, weights, names, Sequences(tokens_BS=tokens_BS), 0, config, watch)
    theirs = PeerSteps(model, [tokens_BS], 0.0).loss(tokens_BS)
    theirs.backward()  # type: ignore[no-untyped-call]
    loss, peer_loss = float(found.forward.lm_loss), float(theirs.detach())
    assert abs(loss - peer_loss) <= _TOLERANCE[config.numerics.compute] * peer_loss, (loss, peer_loss)
    grads = {name: grad.float() for name, grad in zip(names, found.grads, strict=True)}
    laid_out = dict(model_of(config, grads, "eager", torch.float32).named_parameters())
    ours = torch.cat([laid_out[name].detach().reshape(-1) for name, _ in model.named_parameters()])
    their_grads = torch.cat([p.grad.float().reshape(-1) for p in model.parameters()])
    cosine = float(torch.nn.functional.cosine_similarity(ours, their_grads, dim=0))
    assert cosine >= _COSINE[config.numerics.compute], f"cosine of the gradients {cosine}"
    model.zero_grad(set_to_none=True)
