"""Weights under FSDP2, a block at a time: whole while their function runs, cut otherwise."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from trainer.router import Routing


class Unit(nn.Module):
    """Named parameters as a module, so that FSDP2 can gather them around a function of theirs."""

    def __init__(self, values: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._places = {name: f"parameter_{index}" for index, name in enumerate(values)}
        for name, place in self._places.items():
            self.register_parameter(place, nn.Parameter(values[name]))

    def forward(self, function: Callable[..., Any], others: Mapping[str, Tensor], *tensors: Any) -> Any:
        """What the function gives, taken apart: FSDP2 looks for tensors in tuples only."""
        weights = {name: getattr(self, place) for name, place in self._places.items()}
        return _taken_apart(function(ChainMap(weights, dict(others)), *tensors))

    def cuts(self) -> dict[str, Tensor]:
        """Views of what this process holds."""
        return {name: _local(getattr(self, place)) for name, place in self._places.items()}

    def take_gradients(self) -> dict[str, Tensor]:
        """The cuts of the gradients; the next backward pass starts at none."""
        found = {}
        for name, place in self._places.items():
            parameter = getattr(self, place)
            found[name] = torch.zeros_like(_local(parameter)) if parameter.grad is None else _local(parameter.grad)
            parameter.grad = None
        return found


class Units:
    """All units of a model; `unit_of` names the one of a parameter, `meshes` says over which processes each is cut."""

    def __init__(
        self,
        values: Mapping[str, Tensor],
        unit_of: Callable[[str], str],
        mesh_of: Callable[[str], DeviceMesh],
    ) -> None:
        members: dict[str, dict[str, Tensor]] = {}
        for name, value in values.items():
            members.setdefault(unit_of(name), {})[name] = value
        self._units = {unit: Unit(some) for unit, some in members.items()}
        for unit, module in self._units.items():
            fully_shard(module, mesh=mesh_of(unit))

    def __contains__(self, unit: str) -> bool:
        return unit in self._units

    def run(self, unit: str, function: Callable[..., Any], weights: Mapping[str, Tensor], *tensors: Any) -> Any:
        """`function(weights, *tensors)` with the whole weights of the unit, and `weights` for names that it lacks."""
        return _put_together(self._units[unit](function, weights, *tensors))

    def cuts(self) -> dict[str, Tensor]:
        return {name: cut for unit in self._units.values() for name, cut in unit.cuts().items()}

    def take_gradients(self) -> dict[str, Tensor]:
        return {name: grad for unit in self._units.values() for name, grad in unit.take_gradients().items()}


def _local(tensor: Any) -> Tensor:
    local: Tensor = tensor.to_local().detach()
    return local


def _taken_apart(result: Any) -> Any:
    parts = result if isinstance(result, tuple) else (result,)
    return tuple(tuple(getattr(p, f.name) for f in fields(p)) if isinstance(p, Routing) else p for p in parts)


def _put_together(parts: tuple[Any, ...]) -> Any:
    names = [field.name for field in fields(Routing)]
    whole = tuple(Routing(**dict(zip(names, p, strict=True))) if isinstance(p, tuple) else p for p in parts)
    return whole if len(whole) > 1 else whole[0]
