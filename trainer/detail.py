"""The finest statistics, written at a cadence of their own: single matrices, single experts, routers in detail.

Shape letters: L router layers, E experts, T tokens, P parameters, F expert width, D model width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from trainer.groups import module_of
from trainer.model import Forward

Named = tuple[Sequence[str], Tensor]
_STACK = ".experts."


class Detail:
    """Names are made once."""

    def __init__(self, parameter_names: Sequence[str], layers: Sequence[str]) -> None:
        self._layers = tuple(layers)
        modules = {module_of(name) for name in parameter_names}  # these names are taken
        short = {name: name.removesuffix(".weight") for name in parameter_names}
        self._paths = [name if short[name] in modules else short[name] for name in parameter_names]
        stacks: dict[str, list[int]] = {}
        for index, name in enumerate(parameter_names):
            if _STACK in name:
                stacks.setdefault(name.partition(_STACK)[0], []).append(index)
        self._stacks = stacks

    def matrices(self, statistic: str, norm_P: Tensor) -> Named:
        """Every parameter by itself."""
        return [f"{statistic}/{path}" for path in self._paths], norm_P

    def experts(self, statistic: str, tensors: Sequence[Tensor]) -> Named:
        """The norm of each expert's three matrices together; `tensors` are all parameters or their gradients."""
        names: list[str] = []
        norms = []
        for layer, indices in self._stacks.items():
            by_matrix = [torch.linalg.vector_norm(tensors[i].detach(), dim=(1, 2)) for i in indices]
            norms.append(torch.linalg.vector_norm(torch.stack(by_matrix), dim=0))
            names += [f"{statistic}/{layer}/experts.{e}" for e in range(len(norms[-1]))]
        return names, torch.cat(norms)

    def routers(self, forward: Forward, buffers: Mapping[str, Tensor]) -> Iterator[Named]:
        """Mean probability of every expert, and the bias that moves its choice where there is one."""
        weight_LT = forward.weight_LT
        if weight_LT is None:
            mean_LE = forward.probs_LET.mean(dim=2)
        else:
            share_LT = weight_LT / weight_LT.sum(dim=1, keepdim=True).clamp(min=1.0)
            mean_LE = (forward.probs_LET * share_LT.unsqueeze(1)).sum(dim=2)
        experts = range(mean_LE.shape[1])
        yield [f"router_prob/{layer}/experts.{e}" for layer in self._layers for e in experts], mean_LE.flatten()
        for name, bias_E in buffers.items():
            layer = name.removesuffix(".router.choice_bias")
            yield [f"choice_bias/{layer}/experts.{e}" for e in experts], bias_E
