"""Batched Newton-Schulz orthogonalisation, the heart of Muon. Shape letters: E matrices, M rows, N columns."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.backend import FLOATS, Backend, Operation, require
from kernels.newton_schulz import cpu, reference
from kernels.newton_schulz.settings import STEPS

__all__ = ["newton_schulz"]

_DTYPES = (*FLOATS, torch.float64)
_OPERATION = Operation(
    name="newton_schulz",
    reference=reference.newton_schulz,
    cpu=cpu.newton_schulz,
    triton="kernels.newton_schulz.triton:newton_schulz",
    dtypes={Backend.CPU: _DTYPES, Backend.TRITON: FLOATS},
)


def newton_schulz(
    update_EMN: Tensor,
    *,
    steps: int = STEPS,
    compute: torch.dtype = torch.bfloat16,
    backend: Backend | str | None = None,
) -> Tensor:
    """Each matrix's singular values pushed to about 0.7 to 1.2 (not to 1), its singular vectors kept.

    Five steps x <- a x + (b g + c g^2) x with g = x x^T on x = update / max(||update||_F, 1e-7), in `compute`
    precision. A zero matrix stays zero; a NaN or infinity spoils its own matrix only. Not differentiable. Result in the
    update's dtype. Raises UserInputError unless given [E, M, N].
    """
    require(update_EMN.dim() == 3, f"newton_schulz: {tuple(update_EMN.shape)} is not [E, M, N]", "unsqueeze a matrix")
    known = compute in (torch.bfloat16, torch.float32, torch.float64)
    require(known, f"newton_schulz: cannot compute in {compute}", "use bfloat16, float32 or float64")
    if not update_EMN.numel():
        return update_EMN.clone()
    return _OPERATION.choose(update_EMN, backend)(update_EMN, steps, compute)
