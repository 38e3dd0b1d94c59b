"""What comes out of the loss. Shape letters: T tokens, D model width, V vocabulary."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

IGNORE = -100
"""Target of a token that does not count."""


class Loss(NamedTuple):
    """total         [] float32: mean over counted tokens of cross entropy + z_coefficient * logsumexp ** 2; the
                  differentiable one
    cross_entropy [] float32, detached: mean cross entropy alone
    z_loss        [] float32, detached: mean logsumexp ** 2
    token_losses  [T] float32, detached: cross entropy of each token, 0 where it does not count
    """

    total: Tensor
    cross_entropy: Tensor
    z_loss: Tensor
    token_losses: Tensor
