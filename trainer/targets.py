"""What each position is to predict, and what part of an optimizer step a forward pass sees.

Shape letters: B sequences, S positions of a sequence, J depths (0 the main head, k the k-th MTP module),
L router layers, E experts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """Tokens of one step or of a part of it: S + 1 of each sequence, the last of which is only a target."""

    tokens_BS: Tensor
    document_BS: Tensor | None = None  # int64, which document a token is of, -1 for padding; None: one document a row
    label_mask_BS: Tensor | None = None  # bool, which tokens count as labels; None: all
    columns: Tensor | None = None  # int64, the positions that this process computes; None: all

    @property
    def inputs(self) -> Tensor:
        """[B, S]"""
        return self.own(self.tokens_BS[:, :-1])

    def own(self, x_BS: Tensor) -> Tensor:
        """The columns of a [B, S] tensor that this process computes."""
        return x_BS if self.columns is None else x_BS[:, self.columns]

    def parts(self, count: int) -> Iterator[Sequences]:
        """Equal stretches of the sequences, in order."""
        masks = (self.document_BS, self.label_mask_BS)
        chunks = [[None] * count if mask is None else mask.chunk(count) for mask in masks]
        for tokens_BS, document_BS, label_mask_BS in zip(self.tokens_BS.chunk(count), *chunks, strict=True):
            yield replace(self, tokens_BS=tokens_BS, document_BS=document_BS, label_mask_BS=label_mask_BS)


@dataclass(frozen=True, kw_only=True)
class Targets:
    """Of one depth. `real` positions have a target in their own document; it is a label where `counts`."""

    token_BS: Tensor
    real_BS: Tensor
    counts_BS: Tensor
    num_labels_B: Tensor  # of the whole sequence, also where this process computes a part of it

    @classmethod
    def of(cls, sequences: Sequences, depth: int) -> Targets:
        """Position i is to predict token i + depth + 1: never one of another document, of padding or behind the end."""
        length = sequences.tokens_BS.shape[1] - 1
        document_BS = sequences.document_BS
        if document_BS is None:
            document_BS = torch.zeros_like(sequences.tokens_BS)
        ahead_BS = _ahead(document_BS, depth + 1, length, fill=-1)
        real_BS = (ahead_BS == document_BS[:, :length]) & (ahead_BS >= 0)
        counts_BS = real_BS
        if sequences.label_mask_BS is not None:
            counts_BS = real_BS & _ahead(sequences.label_mask_BS, depth + 1, length, fill=False)
        return cls(
            token_BS=sequences.own(_ahead(sequences.tokens_BS, depth + 1, length, fill=0)),
            real_BS=sequences.own(real_BS),
            counts_BS=sequences.own(counts_BS),
            num_labels_B=counts_BS.sum(dim=1),
        )


@dataclass(frozen=True, kw_only=True)
class Share:
    """What a part must know of the whole step. The mean of the parts' losses is the loss of the step."""

    num_parts: int
    num_labels_J: Tensor  # labels of the step by depth
    num_real_J: Tensor  # routed tokens of the step: of the main layers, then of each MTP module
    load_LE: Tensor | None = None  # expert load of the step; None: that of the part, or what `summed` makes of it
    summed: Callable[[Tensor], Tensor] | None = None  # the sum of a tensor over the processes; None: there is one

    def total(self, count_LE: Tensor) -> Tensor:
        """A count of the part, over all processes."""
        return self.summed(count_LE) if self.summed else count_LE

    @classmethod
    def of(cls, sequences: Sequences, num_parts: int, num_modules: int) -> Share:
        if sequences.document_BS is None and sequences.label_mask_BS is None:
            num_sequences, length = sequences.tokens_BS.shape
            num_J = torch.tensor([num_sequences * (length - 1 - depth) for depth in range(num_modules + 1)])
            return cls(num_parts=num_parts, num_labels_J=num_J, num_real_J=num_J)
        depths = [Targets.of(sequences, depth) for depth in range(num_modules + 1)]
        real = [real_tokens(sequences), *(targets.real_BS for targets in depths[1:])]
        return cls(
            num_parts=num_parts,
            num_labels_J=torch.stack([targets.counts_BS.sum() for targets in depths]).clamp_(min=1),
            num_real_J=torch.stack([mask.sum() for mask in real]).clamp_(min=1),
        )


def real_tokens(sequences: Sequences) -> Tensor:
    """[B, S] True where an input token is no padding."""
    if sequences.document_BS is None:
        return torch.ones_like(sequences.inputs, dtype=torch.bool)
    return sequences.own(sequences.document_BS[:, :-1]) >= 0


def inputs_ahead(sequences: Sequences, depth: int) -> Tensor:
    """[B, S] the token `depth` places ahead of each position, 0 behind the end: what an MTP module is told."""
    return sequences.own(_ahead(sequences.tokens_BS, depth, sequences.tokens_BS.shape[1] - 1, fill=0))


def _ahead(x_BS: Tensor, distance: int, length: int, fill: float) -> Tensor:
    """Columns `distance` further, cut or filled up to `length`."""
    shifted = x_BS[:, distance : distance + length]
    missing = length - shifted.shape[1]
    return functional.pad(shifted, (0, missing), value=fill) if missing else shifted
