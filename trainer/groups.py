"""Which optimizer group, metric module and memory bucket each parameter belongs to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from contracts.errors import ConfigError
from trainer.config import GROUPS, OptimConfig

_LAYER = re.compile(r"^((?:layers|mtp)\.\d+)\.(.+)$")


def assign_groups(
    shapes: Mapping[str, tuple[int, ...]], parameter_group: Callable[[str, int], str], optim: OptimConfig
) -> dict[str, str]:
    """Group of every parameter: each is in exactly one.

    Raises ConfigError for a group that does not exist and for Muon on a parameter that is no matrix.
    """
    groups = {name: parameter_group(name, len(shape)) for name, shape in shapes.items()}
    for name, group in groups.items():
        if group not in GROUPS:
            raise ConfigError(
                f"parameter_group('{name}') gave '{group}', which is no parameter group",
                remedy="return one of " + ", ".join(GROUPS),
            )
        if optim.group(group).optimizer == "muon" and len(shapes[name]) < 2:
            raise ConfigError(
                f"optim.{group}.optimizer is muon, but '{name}' in that group is a vector",
                remedy=f"set optim.{group}.optimizer to adamw, or put '{name}' into another group",
            )
    return groups


def module_of(name: str) -> str:
    """Metric module of a parameter: embedding, head, final_norm, or a block's attn, router, experts, dense or norm.

    Blocks are `layers.I` and `mtp.I`; an MTP module also has a `projection`.
    """
    match = _LAYER.match(name)
    if match is None:
        return name.partition(".")[0]
    layer, rest = match.groups()
    part = "norm" if "norm" in rest else "experts" if "experts" in rest else rest.partition(".")[0]
    return f"{layer}.{part}"
