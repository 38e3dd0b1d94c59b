"""AdamW and Muon over buckets: parameters that share settings lie in one stretch of memory and move by one operation.

A bucket holds parameters of one group whose optimizer state is equally old (and, for Muon, of one matrix shape), up to
a size that the cache holds.
Weight decay is decoupled and multiplied by the learning rate: w <- w - lr * (direction + weight_decay * w).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from contracts.events import Scalar
from trainer.config import GROUPS, GroupConfig, MuonConfig, OptimConfig
from trainer.muon import orthogonalise, rms_scale
from trainer.precision import DTYPES
from trainer.ranks.alone import Ranks

_MAX_ELEMENTS = 2**17  # of a bucket: weights, gradient and state of one update stay in a core's cache
_WORTH_A_CALL = 2**14  # elements of a tensor from which on it is scaled by itself
STATE_NAMES = {"adamw": ("first", "second"), "muon": ("momentum",)}


@dataclass(frozen=True, kw_only=True)
class ParameterState:
    """Optimizer state of one parameter, as it is kept in a checkpoint."""

    optimizer: str
    age: int  # updates so far
    tensors: Mapping[str, Tensor]


@dataclass(kw_only=True)
class Bucket:
    """Parameters that move together. `flat` is the memory that their weights are views of."""

    group: str
    settings: GroupConfig
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    matrix: tuple[int, ...]  # rows and columns of what Muon orthogonalises; () under AdamW
    flat: Tensor
    age: int
    state: dict[str, Tensor] = field(default_factory=dict)

    def split(self, flat: Tensor) -> dict[str, Tensor]:
        """Views by parameter name."""
        parts = torch.split(flat, [math.prod(shape) for shape in self.shapes])
        return {name: part.view(shape) for name, shape, part in zip(self.names, self.shapes, parts, strict=True)}

    def update(self, grad: Tensor, lr: float, muon: MuonConfig, ranks: Ranks, *, measure: bool) -> Tensor | None:
        """Move weights and state by the clipped flat gradient; the norm moved if `measure`."""
        self.age += 1
        if self.settings.optimizer == "adamw":
            return self._adamw(grad, lr, measure=measure)
        change = self._muon_direction(grad, muon, ranks).mul_(-lr)
        if self.settings.weight_decay:
            change.add_(self.flat, alpha=-lr * self.settings.weight_decay)
        self.flat.add_(change)
        return torch.linalg.vector_norm(change) if measure else None

    def _adamw(self, grad: Tensor, lr: float, *, measure: bool) -> Tensor | None:
        """torch's fused AdamW; where the change is measured, a piece at a time, while it lies in the cache."""
        settings, age = self.settings, torch.tensor(float(self.age))
        size = _MAX_ELEMENTS if measure else max(len(grad), 1)
        tensors = (self.flat, grad, self.state["first"], self.state["second"])
        norms = []
        for weight, gradient, first, second in zip(*(torch.split(each, size) for each in tensors), strict=True):
            before = weight.clone() if measure else None
            torch._fused_adamw_(
                [weight], [gradient], [first], [second], [], [age], lr=lr, beta1=settings.beta1, beta2=settings.beta2,
                weight_decay=settings.weight_decay, eps=settings.eps, amsgrad=False, maximize=False,
            )  # fmt: skip
            if before is not None:
                norms.append(torch.linalg.vector_norm(before.sub_(weight)))
        return torch.linalg.vector_norm(torch.stack(norms)) if norms else None

    def _muon_direction(self, grad: Tensor, muon: MuonConfig, ranks: Ranks) -> Tensor:
        momentum, beta = self.state["momentum"], self.settings.beta1
        momentum.lerp_(grad, 1.0 - beta)
        update = grad.lerp(momentum, beta) if muon.nesterov else momentum
        if ranks.count == 1 or all(len(shape) > 2 for shape in self.shapes):  # stacks are cut between matrices
            direction = self._orthogonal(update, muon)
        else:
            wholes = ranks.whole(self.split(update))
            direction = _flat(
                [ranks.cut(name, self._orthogonal(whole, muon).view_as(whole)) for name, whole in wholes.items()]
            )
        return direction.mul_(rms_scale(self.matrix, muon.rms))

    def _orthogonal(self, update: Tensor, muon: MuonConfig) -> Tensor:
        """Flat, of one or more whole matrices."""
        matrices = update.reshape(-1, *self.matrix)
        return orthogonalise(matrices, muon.iterations, self.settings.eps, DTYPES[muon.compute]).reshape(-1)


class Optimizer:
    """Owns the weights. `weights` are leaf tensors by name; `step` moves them in place."""

    def __init__(
        self,
        values: Mapping[str, Tensor],
        groups: Mapping[str, str],
        optim: OptimConfig,
        muon: MuonConfig,
        states: Mapping[str, ParameterState],
        head_dim: int | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        """`states` come from a checkpoint; a parameter without one, or whose optimizer changed, starts anew.

        Of values and states it has the cuts that `ranks` give this process.
        `head_dim` are the rows of one head in query, key and value matrices; `muon.split_heads` needs it.
        """
        self._muon, self._ranks = muon, ranks or Ranks()
        self.groups = dict(groups)
        shapes = {name: self._ranks.whole_shape(name, value) for name, value in values.items()}
        self._buckets = _buckets(values, shapes, groups, optim, states, head_dim if muon.split_heads else None)
        self.weights = {n: w.requires_grad_() for bucket in self._buckets for n, w in bucket.split(bucket.flat).items()}
        self.names = tuple(self.weights)

    @torch.no_grad()
    def step(
        self, grads: Sequence[Tensor], scale: float, multiplier: float, *, only_mtp: bool = False, measure: bool = True
    ) -> dict[str, Tensor]:
        """One update from the gradients (in the order of `names`) times `scale`.

        Returns the norm moved by group, nothing without `measure`. With `only_mtp` the main model stands still: its
        weights, its moments and their age.
        """
        squared: dict[str, list[Tensor]] = {}
        start = 0
        for bucket in self._buckets:
            end = start + len(bucket.names)
            if only_mtp and not _is_mtp(bucket.names[0]):
                squared.setdefault(bucket.group, []).append(torch.zeros(()))
                start = end
                continue
            grad = _scaled(grads[start:end], scale)
            start = end
            lr = bucket.settings.lr * multiplier
            norm = bucket.update(grad, lr, self._muon, self._ranks, measure=measure)
            if norm is not None:
                squared.setdefault(bucket.group, []).append(norm)
        if not measure:
            return {}
        norms = torch.stack([torch.linalg.vector_norm(torch.stack(norms)) for norms in squared.values()])
        return dict(zip(squared, self._ranks.norms(norms), strict=True))

    def states(self) -> dict[str, ParameterState]:
        """State by parameter name; the tensors are views."""
        found = {}
        for bucket in self._buckets:
            parts = {key: bucket.split(flat) for key, flat in bucket.state.items()}
            for name in bucket.names:
                tensors = {key: views[name] for key, views in parts.items()}
                found[name] = ParameterState(optimizer=bucket.settings.optimizer, age=bucket.age, tensors=tensors)
        return found

    def effective(self) -> dict[str, Scalar]:
        """Settings the buckets really use, by the dotted keys of the config, and each parameter's group."""
        used: dict[str, Scalar] = {f"param_group.{name}": group for name, group in self.groups.items()}
        for bucket in self._buckets:
            for key, value in bucket.settings.flat().items():
                used[f"optim.{bucket.group}.{key}"] = value
        return used


def _buckets(
    values: Mapping[str, Tensor],
    shapes: Mapping[str, tuple[int, ...]],
    groups: Mapping[str, str],
    optim: OptimConfig,
    states: Mapping[str, ParameterState],
    head_rows: int | None,
) -> list[Bucket]:
    members: dict[tuple[int, bool, int, tuple[int, ...]], list[str]] = {}
    for name in values:
        settings = optim.group(groups[name])
        age = states[name].age if _fits(states.get(name), settings) else 0
        shape = _matrix(name, shapes[name], head_rows) if settings.optimizer == "muon" else ()
        members.setdefault((GROUPS.index(groups[name]), _is_mtp(name), age, shape), []).append(name)
    return [
        _bucket(GROUPS[group], optim.group(GROUPS[group]), age, matrix, some, values, states)
        for (group, _, age, matrix), names in sorted(members.items())
        for some in _pieces(names, shapes)
    ]


def _pieces(names: list[str], shapes: Mapping[str, tuple[int, ...]]) -> list[list[str]]:
    """The names in order, in as few lists as keep each within the cache."""
    pieces: list[list[str]] = []
    room = 0
    for name in names:
        size = math.prod(shapes[name])
        if size > room:
            pieces.append([])
            room = max(_MAX_ELEMENTS, size)
        pieces[-1].append(name)
        room -= size
    return pieces


def _bucket(
    group: str,
    settings: GroupConfig,
    age: int,
    matrix: tuple[int, ...],
    names: list[str],
    values: Mapping[str, Tensor],
    states: Mapping[str, ParameterState],
) -> Bucket:
    flat = torch.cat([values[name].reshape(-1) for name in names])
    state = {key: torch.zeros_like(flat) for key in STATE_NAMES[settings.optimizer]}
    if age:
        for key in state:
            state[key] = torch.cat([states[name].tensors[key].reshape(-1) for name in names])
    return Bucket(
        group=group,
        settings=settings,
        names=tuple(names),
        shapes=tuple(tuple(values[name].shape) for name in names),
        matrix=matrix,
        flat=flat,
        age=age,
        state=state,
    )


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    """One vector, which a single tensor may share memory with."""
    flats = [tensor.reshape(-1) for tensor in tensors]
    return flats[0] if len(flats) == 1 else torch.cat(flats)


def _scaled(tensors: Sequence[Tensor], scale: float) -> Tensor:
    """One vector of the tensors times `scale`; they themselves stay. Large ones are read once for both."""
    if scale == 1.0:
        return _flat(tensors)
    sizes = [tensor.numel() for tensor in tensors]
    if sum(sizes) < _WORTH_A_CALL * len(sizes):
        return _flat(tensors) * scale
    flat = tensors[0].new_empty(sum(sizes))
    for part, tensor in zip(torch.split(flat, sizes), tensors, strict=True):
        torch.mul(tensor, scale, out=part.view(tensor.shape))
    return flat


def _matrix(name: str, shape: tuple[int, ...], head_rows: int | None) -> tuple[int, ...]:
    rows, columns = shape[-2:]
    is_by_head = name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight"))
    return (head_rows if head_rows and is_by_head else rows, columns)


def _is_mtp(name: str) -> bool:
    return name.startswith("mtp.")


def _fits(state: ParameterState | None, settings: GroupConfig) -> bool:
    return state is not None and state.optimizer == settings.optimizer
