"""Series-name grammar: `statistic/module.path[/experts.N][@rank=R]`.

Examples: `lm_loss`, `max_vio/layers.15`, `grad_norm/layers.3.attn.q_proj`,
`expert_load/layers.5/experts.7`, `lr/group.router`, `tokens_per_second@rank=3`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)(?:\.|$)")
_EXPERT = re.compile(r"^experts\.(\d+)$")
_RANK = re.compile(r"^(?P<rest>.*)@rank=(?P<rank>\d+)$")
_MAX_NUMBER = 2**31 - 1  # what a column of the store holds


@dataclass(frozen=True, kw_only=True)
class SeriesName:
    """A parsed name. `module` is "" for whole-model statistics; absent parts are None."""

    statistic: str
    module: str = ""
    layer: int | None = None
    expert: int | None = None
    rank: int | None = None

    @classmethod
    def parse(cls, name: str) -> SeriesName:
        """Parse any string; what does not fit the grammar stays in `statistic` and `module`, never lost.

        A number beyond 31 bits is no layer, expert or rank.
        """
        rank: int | None = None
        if (match := _RANK.match(name)) and (number := _number(match["rank"])) is not None:
            name, rank = match["rest"], number
        statistic, _, module = name.partition("/")
        head, _, last = module.rpartition("/")
        expert: int | None = None
        if (match := _EXPERT.match(last)) and (number := _number(match[1])) is not None:
            expert, module = number, head
        layer = _LAYER.search(module)
        return cls(
            statistic=statistic,
            module=module,
            layer=_number(layer[1]) if layer else None,
            expert=expert,
            rank=rank,
        )

    def __str__(self) -> str:
        text = f"{self.statistic}/{self.module}" if self.module else self.statistic
        if self.expert is not None:
            text += f"/experts.{self.expert}"
        if self.rank is not None:
            text += f"@rank={self.rank}"
        return text


def _number(digits: str) -> int | None:
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= 10 and int(digits) <= _MAX_NUMBER else None
