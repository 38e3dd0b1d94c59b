"""Documents into rows of equal length, and what attention costs on each row.

Letters: D documents, N pieces (parts of documents that lie in one row), P packs (rows).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_MAX_OPEN = 1024  # packs that still take documents: bounds memory, and how far a document moves from its neighbours


@dataclass(frozen=True, kw_only=True)
class Packs:
    """Pieces in the order of their packs; pack p holds pieces first_piece[p] up to first_piece[p + 1] - 1."""

    document_N: Ints  # index into the lengths
    start_N: Ints  # of the piece in its document
    length_N: Ints
    first_piece: Ints  # [P + 1]

    def __len__(self) -> int:
        return len(self.first_piece) - 1

    def costs(self) -> Ints:
        """[P] attention work: the sum of the squared piece lengths (R801-7.8, equation 3)."""
        return np.add.reduceat(self.length_N**2, self.first_piece[:-1]) if len(self) else np.empty(0, dtype=np.int64)

    def pieces(self, pack: int) -> range:
        return range(int(self.first_piece[pack]), int(self.first_piece[pack + 1]))


def pack_documents(lengths: Iterable[int], capacity: int) -> Packs:
    """Put documents (each >= 1 token, in order) into packs of `capacity` >= 2 tokens; each goes where it fits best.

    A document longer than a pack is cut into pieces that share one token, so that each of its tokens but the first is
    the label of exactly one position. The result is a pure function of its arguments.
    """
    document: list[int] = []
    start: list[int] = []
    length: list[int] = []
    pack_of: list[int] = []
    rooms: list[tuple[int, int]] = []  # (free tokens, pack) of the open packs, ascending
    num_packs = 0
    for index, whole in enumerate(lengths):
        for begin in range(0, max(whole - 1, 1), capacity - 1):
            size = min(capacity, whole - begin)
            place = bisect_left(rooms, (size, -1))
            if place < len(rooms):
                room, pack = rooms.pop(place)
            else:
                room, pack = capacity, num_packs
                num_packs += 1
            if room > size:
                insort(rooms, (room - size, pack))
                if len(rooms) > _MAX_OPEN:
                    del rooms[0]
            document.append(index)
            start.append(begin)
            length.append(size)
            pack_of.append(pack)
    return _by_pack(_ints(document), _ints(start), _ints(length), _ints(pack_of), num_packs)


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _by_pack(document_N: Ints, start_N: Ints, length_N: Ints, pack_N: Ints, num_packs: int) -> Packs:
    order = np.argsort(pack_N, kind="stable")
    counts = np.bincount(pack_N, minlength=num_packs)
    return Packs(
        document_N=document_N[order],
        start_N=start_N[order],
        length_N=length_N[order],
        first_piece=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
    )
