"""Output layer and cross entropy with z-loss; the logits are never materialised whole.

Shape letters: T tokens, D model width, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.backend import FLOATS, Backend, Operation, require
from kernels.cross_entropy import cpu, reference
from kernels.cross_entropy.settings import IGNORE, Loss

__all__ = ["IGNORE", "Loss", "cross_entropy"]

_OPERATION = Operation(
    name="cross_entropy",
    reference=reference.cross_entropy,
    cpu=cpu.cross_entropy,
    triton="kernels.cross_entropy.triton:cross_entropy",
    dtypes={Backend.CPU: FLOATS, Backend.TRITON: FLOATS},
)


def cross_entropy(
    hidden_TD: Tensor,
    weight_VD: Tensor,
    targets_T: Tensor,
    *,
    z_coefficient: float = 0.0,
    backend: Backend | str | None = None,
) -> Loss:
    """The loss of logits = hidden @ weight.T; differentiable in `total` only, through hidden and weight.

    Tokens with target IGNORE (-100) count in no mean and get no gradient; without any counted token the loss is 0.
    Logits and softmax are float32, the weight gradient is summed in float32. Targets outside the vocabulary raise
    UserInputError (on CPU; on a GPU they are not checked, to avoid a synchronisation).
    """
    fits = hidden_TD.dim() == weight_VD.dim() == 2 and hidden_TD.shape[1] == weight_VD.shape[1]
    require(
        fits and targets_T.shape == hidden_TD.shape[:1],
        f"cross_entropy: {tuple(hidden_TD.shape)}, {tuple(weight_VD.shape)}, {tuple(targets_T.shape)} do not fit",
        "pass hidden [T, D], weight [V, D] and targets [T]",
    )
    require(hidden_TD.dtype == weight_VD.dtype, "cross_entropy: dtypes differ", "convert to one dtype")
    require(targets_T.dtype == torch.int64, "cross_entropy: targets are not int64", "convert them")
    if targets_T.device.type == "cpu" and targets_T.numel():
        counted_T = targets_T[targets_T != IGNORE]
        inside = not counted_T.numel() or (int(counted_T.min()) >= 0 and int(counted_T.max()) < len(weight_VD))
        require(inside, "cross_entropy: a target is outside the vocabulary", f"use 0 to {len(weight_VD) - 1} or -100")
    return _OPERATION.choose(hidden_TD, backend)(hidden_TD, weight_VD, targets_T, z_coefficient)
