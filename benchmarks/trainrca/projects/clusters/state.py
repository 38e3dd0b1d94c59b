"""What a checkpoint holds."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optimizer import AdamW

Floats = NDArray[np.float64]


def save(folder: Path, step: int, weights: list[Floats], adam: AdamW) -> None:
    """Whole or not at all."""
    groups = {"w": weights, "m": adam.first, "v": adam.second}
    arrays: dict[str, Any] = {f"{name}{i}": row for name, rows in groups.items() for i, row in enumerate(rows)}
    draft = folder / f"draft-{step}.npz"
    np.savez(draft, step=np.array(step), **arrays)
    draft.rename(folder / f"ckpt-{step:05d}.npz")


def restore(path: str, adam: AdamW) -> tuple[int, list[Floats]]:
    """Step and weights; the optimizer's state goes where it belongs."""
    saved = np.load(path)
    count = len(adam.first)
    weights = [saved[f"w{i}"] for i in range(count)]

    adam.first = [saved[f"m{i}"] for i in range(count)]

    adam.second = [saved[f"v{i}"] for i in range(count)]

    return int(saved["step"]), weights
