"""One JSON object a step."""

import json
from typing import IO, Any

import numpy as np
from network import NAMES
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def measured(loss: float, norm: float, rate: float, tokens_per_second: float) -> dict[str, float]:
    """What is known of every step."""
    shown = loss

    return {"loss": shown, "grad_norm": norm, "lr": rate, "tokens_per_second": tokens_per_second}


def of_layers(weights: list[Floats], gradients: list[Floats]) -> dict[str, float]:
    """Norms of the single parameters."""
    sizes = {f"weight_norm/{name}": float(np.sqrt((w**2).sum())) for name, w in zip(NAMES, weights, strict=True)}

    slopes = {f"grad_norm/{name}": float(np.sqrt((g**2).sum())) for name, g in zip(NAMES, gradients, strict=True)}

    return sizes | slopes


def write(log: IO[str], step: int, values: dict[str, Any]) -> None:
    """And let others read it at once."""
    log.write(json.dumps({"step": step, **values}) + "\n")
    log.flush()
