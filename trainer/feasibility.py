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
    """Raises ConfigError when the least that a process of the training needs is more than `memory_bytes`."""
    state, activations = process_bytes(config, parameter_group), activation_bytes(config)
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


def process_bytes(config: TrainConfig, parameter_group: Callable[[str, int], str]) -> int:
    """The state as one process holds it: alone all of it.

    One of several holds its cut, and at each checkpoint all weights and moments whole, which every process gathers.
    """
    whole, (size, _) = state_bytes(config, parameter_group), _split(config)
    if size == 1:
        return whole
    gradients = _FLOAT * num_parameters(parameter_shapes(config.model, config.moe, config.mtp))
    return math.ceil(whole / size) + whole - gradients


def activation_bytes(config: TrainConfig) -> int:
    """What backward surely needs of one micro-batch of a process: attention of the layers it keeps, and logits.

    Short rows keep the probabilities of all pairs of positions, long ones their queries, keys, values and outputs.
    Context-parallel processes keep the probabilities of their own positions whatever the length, and masks of those.
    """
    model, data, (size, cp_size) = config.model, config.data, _split(config)
    rows = math.ceil(data.batch_size * cp_size / size / config.parallel.accumulation)
    layers, own = 1 if config.numerics.activation_checkpointing else model.num_layers, data.seq_len // cp_size
    pairs, whole = model.num_heads * data.seq_len, 2 * (model.num_heads + model.num_kv_heads) * model.head_dim
    is_whole = cp_size == 1 and is_long(data.seq_len, config.numerics.compute)
    masks = 0 if cp_size == 1 else pairs * own // model.num_kv_heads
    if cp_size > 1 and data.documents != "stream":
        masks += rows * pairs * own
    attention = layers * rows * own * (whole if is_whole else pairs) + masks
    logits = 0 if chunks_logits(config) else 2 * rows * own * model.vocab_size
    return _FLOAT * (attention + logits)


def _split(config: TrainConfig) -> tuple[int, int]:
    """How many processes there are, and how many of them share a sequence; simulated ranks are none."""
    parallel = config.parallel
    return (parallel.dp_size * parallel.cp_size, parallel.cp_size) if parallel.processes else (1, 1)


def machine_memory() -> int:
    """Bytes of this machine, or of the container if that has a limit."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = _CGROUP_LIMIT.read_text().strip() if _CGROUP_LIMIT.is_file() else "max"
    return physical if limit == "max" else min(physical, int(limit))


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
