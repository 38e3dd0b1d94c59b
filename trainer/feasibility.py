"""Refuses a recipe that cannot run, before anything is trained, with the field and the remedy."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

from contracts.errors import ConfigError
from trainer.attention import is_long
from trainer.config import TrainConfig
from trainer.groups import assign_groups
from trainer.model import chunks_logits
from trainer.weights import num_parameters, parameter_shapes

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_FLOAT = 4  # bytes


def check_feasible(config: TrainConfig, parameter_group: Callable[[str, int], str], memory_bytes: int) -> None:
    """Raises ConfigError when the least that the training needs is more than `memory_bytes`."""
    state, activations = state_bytes(config, parameter_group), activation_bytes(config)
    if state + activations <= memory_bytes:
        return
    fields, remedy = "model.* and moe.* sizes", "make the model smaller"
    if activations > state:
        fields = f"data.batch_size {config.data.batch_size} with data.seq_len {config.data.seq_len}"
        remedy = "lower data.seq_len or data.batch_size, or raise parallel.accumulation"
    raise ConfigError(
        f"{fields} need at least {_gib(state + activations)} of memory ({_gib(state)} for weights, gradients and "
        f"optimizer, {_gib(activations)} for activations); this machine has {_gib(memory_bytes)}",
        remedy=remedy,
    )


def state_bytes(config: TrainConfig, parameter_group: Callable[[str, int], str]) -> int:
    """Weights and their gradients, and two moments under AdamW or one under Muon."""
    shapes = parameter_shapes(config.model, config.moe, config.mtp)
    groups = assign_groups(shapes, parameter_group, config.optim)
    copies = {name: 3 if config.optim.group(group).optimizer == "muon" else 4 for name, group in groups.items()}
    return sum(_FLOAT * copies[name] * num_parameters({name: shape}) for name, shape in shapes.items())


def activation_bytes(config: TrainConfig) -> int:
    """What backward surely needs of one micro-batch: attention of the layers it keeps, and logits unless in chunks.

    Short rows keep the probabilities of all pairs of positions, long ones their queries, keys, values and outputs.
    """
    model, data = config.model, config.data
    rows = math.ceil(data.batch_size / config.parallel.accumulation)
    layers = 1 if config.numerics.activation_checkpointing else model.num_layers
    pairs, whole = model.num_heads * data.seq_len, 2 * (model.num_heads + model.num_kv_heads) * model.head_dim
    attention = layers * rows * data.seq_len * (whole if is_long(data.seq_len, config.numerics.compute) else pairs)
    logits = 0 if chunks_logits(config) else 2 * rows * data.seq_len * model.vocab_size
    return _FLOAT * (attention + logits)


def machine_memory() -> int:
    """Bytes of this machine, or of the container if that has a limit."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = _CGROUP_LIMIT.read_text().strip() if _CGROUP_LIMIT.is_file() else "max"
    return physical if limit == "max" else min(physical, int(limit))


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
