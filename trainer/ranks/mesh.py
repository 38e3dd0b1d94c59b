"""Which process does what: the mesh of the dense weights, and that of the experts, decoupled from it.

Shape letters: W processes, P positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.config import ParallelConfig

Span = tuple[int, int]  # first index of a parameter's rows, and the one behind the last


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """Process w is data-parallel rank w // cp_size and context-parallel rank w % cp_size.

    Dense weights are cut over all processes (RC2-7.6: context parallelism is folded into the sharding). Experts are
    spread over `ep_size` neighbours, whichever data- and context-parallel ranks those are, and each process's experts
    are cut further over the processes that have the same ones (RC2-7.1).
    """

    dp_size: int
    cp_size: int
    ep_size: int

    @classmethod
    def of(cls, parallel: ParallelConfig) -> Mesh:
        return cls(dp_size=parallel.dp_size, cp_size=parallel.cp_size, ep_size=parallel.ep_size)

    @property
    def size(self) -> int:
        return self.dp_size * self.cp_size

    def spans(self, rows: int, *, is_expert: bool) -> list[Span]:
        """[W] which rows of a parameter each process holds; those of one process after another's."""
        if not is_expert:
            return _chunks(0, rows, self.size)
        each = rows // self.ep_size
        shards = self.size // self.ep_size
        spans = [_chunks(each * rank, each * (rank + 1), shards) for rank in range(self.ep_size)]
        return [spans[process % self.ep_size][process // self.ep_size] for process in range(self.size)]

    def expert_peers(self) -> list[list[int]]:
        """Processes that exchange tokens: together they have every expert once."""
        return [list(range(first, first + self.ep_size)) for first in range(0, self.size, self.ep_size)]

    def expert_replicas(self) -> list[list[int]]:
        """Processes that have the same experts."""
        return [list(range(rank, self.size, self.ep_size)) for rank in range(self.ep_size)]

    def context_peers(self) -> list[list[int]]:
        """Processes that share sequences."""
        return [list(range(first, first + self.cp_size)) for first in range(0, self.size, self.cp_size)]

    def columns(self, context_rank: int, seq_len: int) -> Tensor:
        """[P] positions of chunks r and 2 * cp_size - 1 - r: equal causal work for all (RC2-7.5)."""
        chunks = torch.arange(seq_len).chunk(2 * self.cp_size)
        return torch.cat([chunks[context_rank], chunks[2 * self.cp_size - 1 - context_rank]])

    def token_places(self, num_tokens: int, seq_len: int) -> Tensor:
        """[T] where each token of a step, in the order of sequence and position, lies in the processes' tokens joined.

        Data-parallel rank d has the sequences d, d + dp_size and so on.
        """
        token = torch.arange(num_tokens).view(-1, self.dp_size, seq_len).transpose(0, 1)
        joined = [
            token[rank][:, self.columns(context, seq_len)] if self.cp_size > 1 else token[rank]
            for rank in range(self.dp_size)
            for context in range(self.cp_size)
        ]
        return torch.cat([part.reshape(-1) for part in joined]).argsort()

    def lines(self) -> list[str]:
        """Both meshes in words."""
        shards = self.size // self.ep_size
        return [
            f"{self.size} processes; dense weights: data parallel {self.dp_size} x context parallel {self.cp_size}, "
            f"cut over all {self.size}",
            f"experts: expert parallel {self.ep_size}, each part cut over {shards}",
        ]


def _chunks(start: int, stop: int, count: int) -> list[Span]:
    """As FSDP2 cuts: equal pieces, the last ones short or empty."""
    size = -(-(stop - start) // count)
    return [(min(start + size * i, stop), min(start + size * (i + 1), stop)) for i in range(count)]
