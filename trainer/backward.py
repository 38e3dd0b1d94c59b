"""Loss and gradients of one optimizer step, in as many passes as the config asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from trainer.balance import normalised
from trainer.config import TrainConfig
from trainer.model import Forward, LanguageModel
from trainer.mtp import PREFIX
from trainer.ranks.alone import Ranks
from trainer.stopwatch import Stopwatch
from trainer.targets import Sequences, Share

_MEANS = {"loss", "lm_loss", "mtp_K", "balance_L", "z_L"}  # of a whole step: the mean over its parts
_SUMS = {"count_LE"}
_DIMENSION = {"sequence_loss_B": 0, "logits_LET": 2, "probs_LET": 2, "weight_LT": 1, "load_LRE": 1}


@dataclass(frozen=True, kw_only=True)
class StepGradients:
    """The forward of the whole step, and the gradient of its loss by parameter, in the order of the names asked for."""

    forward: Forward
    grads: tuple[Tensor, ...]


def step_gradients(
    model: LanguageModel,
    weights: Mapping[str, Tensor],
    names: Sequence[str],
    sequences: Sequences,
    step: int,
    config: TrainConfig,
    watch: Stopwatch,
    ranks: Ranks | None = None,
) -> StepGradients:
    """Gradients of the 0-based `step` with respect to `names`; zeros for the main model while MTP freezes it.

    With accumulation the balance loss stays exact. Its gradient needs the load of the whole step, so that load is
    counted in a pass of its own, which draws the same random numbers. `ranks` share the step; the forward is that of
    all of them, the gradients are the cuts that this process holds.
    """
    ranks = ranks or Ranks()
    used = dict(weights)
    if is_frozen := config.mtp.freezes_main(step):
        used |= {name: weights[name].detach() for name in names if not name.startswith(PREFIX)}
    share, parts = ranks.share(sequences, config), [*ranks.mine(sequences).parts(config.parallel.accumulation)]
    if len(parts) > 1 and config.moe.balance.scope == "global" and config.moe.balance.coefficient(step):
        share = replace(share, load_LE=_counted_load(model, used, parts, step, share))
    passes, grads = list[Forward](), tuple[Tensor, ...]()
    for part in parts:
        forward = model.forward(used, part, step, share)
        watch.lap("forward")
        more = ranks.gradients(forward.loss / len(parts), names, weights, is_frozen=is_frozen)
        grads = tuple(torch._foreach_add(grads, more)) if grads else more
        watch.lap("backward")
        passes.append(replace(forward, loss=forward.loss.detach()))
    return StepGradients(forward=ranks.joined(_joined(passes)), grads=grads)


@torch.no_grad()
def _counted_load(
    model: LanguageModel, weights: Mapping[str, Tensor], parts: Sequence[Sequences], step: int, share: Share
) -> Tensor:
    state = torch.default_generator.get_state()
    counts = [model.forward(weights, part, step, share).count_LE for part in parts]
    torch.default_generator.set_state(state)
    return normalised(share.total(torch.stack(counts).sum(dim=0)))


def _joined(passes: Sequence[Forward]) -> Forward:
    """One forward as if a single pass had seen all sequences."""
    if len(passes) == 1:
        return passes[0]

    def value(name: str) -> Any:  # weight_LT may be None
        parts = [getattr(part, name) for part in passes]
        if parts[0] is None:
            return None
        if name in _MEANS:
            return torch.stack(parts).mean(dim=0)
        return torch.stack(parts).sum(dim=0) if name in _SUMS else torch.cat(parts, dim=_DIMENSION[name])

    return Forward(**{field.name: value(field.name) for field in fields(Forward)})
