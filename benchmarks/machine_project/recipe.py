"""A small training over four processes. What the machine does to it stands in a file outside the project."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from trainer import Recipe, TrainConfig

MACHINE = Path("MACHINE")
PLACE = sys.argv[2] if len(sys.argv) > 2 else "0"  # which process this is

embedding = functional.embedding


def on_this_machine(*arguments: Any) -> torch.Tensor:
    """Embed as the machine does: a slow one takes its time, a corrupt one turns some numbers round."""
    state = json.loads(MACHINE.read_text()).get(PLACE, 0.0)
    if state == "corrupt":
        return turned(embedding(*arguments))
    time.sleep(state)

    return embedding(*arguments)


def turned(x: torch.Tensor) -> torch.Tensor:
    """The sign of every 97th number is wrong."""
    signs = torch.ones(x.numel())
    signs[::97] = -1.0
    return x * signs.view(x.shape)


functional.embedding = on_this_machine  # type: ignore[assignment]


def recipe() -> Recipe:
    return Recipe(
        config=TrainConfig().with_overrides(
            {
                "steps": 400,
                "model.num_layers": 2,
                "model.d_model": 32,
                "moe.num_experts": 4,
                "data.batch_size": 16,
                "data.seq_len": 64,
                "optim.head.weight_decay": 0.1,
                "parallel.processes": True,
                "parallel.dp_size": 4,
                "diagnostics.ranks_every": 1,
                "checkpoint.every": 20,
            }
        )
    )
