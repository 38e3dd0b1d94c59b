"""Which optimizer group each parameter belongs to."""

from __future__ import annotations

MATRICES = ("embedding", "head", "experts")


def is_norm(name: str) -> bool:
    """True for the gains of the RMS norms."""
    return "norm" in name


def is_router(name: str) -> bool:
    """True for what scores the experts."""
    return "router" in name


def parameter_group(name: str, ndim: int) -> str:
    """One of embedding, head, norm, bias, router, attention, experts."""
    if name.endswith(".bias"):
        return "bias"

    if is_norm(name):
        return "norm"

    if is_router(name):
        return "router"

    for group in MATRICES:
        if group in name:
            return group

    # Whatever is left are the projections of attention.
    return "attention"
