"""What a sample is: a window of a stream of bytes, or a row of packed documents.

Letters: B samples that are read together, S tokens of a sample (one more than the model reads), C sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from contracts.errors import ConfigError, UserInputError
from trainer.corpus import Corpus
from trainer.data_config import DataConfig
from trainer.packing import Packs, pack_documents

Ints = NDArray[np.int64]
Tokens = NDArray[np.uint8] | NDArray[np.int32]

PADDING = -1


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Tokens, and for packed documents whose they are: the document's index within its row, or PADDING."""

    tokens_BS: Ints
    document_BS: Ints | None = None
    label_mask_BS: NDArray[np.bool_] | None = None  # False where a token is never a label; None: all may be


class Samples(Protocol):
    """Samples of each source by index."""

    @property
    def counts(self) -> Sequence[int]:
        """How many each source has."""
        ...

    def read(self, source_B: Ints, index_B: Ints) -> Rows: ...

    def costs(self, source_B: Ints, index_B: Ints) -> Ints:
        """[B] attention work of each sample (R801-7.8)."""
        ...


def samples_of(corpus: Corpus, data: DataConfig) -> Samples:
    """The samples that the config asks for. Raises ConfigError when they do not fit the corpus."""
    if data.documents == "stream":
        return StreamSamples(corpus, data)
    return PackedSamples(corpus, data)


def sample_space(corpus: Corpus, data: DataConfig) -> str:
    """Name of all samples: equal names, equal samples."""
    if data.documents == "stream":
        return f"{corpus.sha256}:{data.seq_len}:{data.stride or data.seq_len}"
    return f"{data.documents}:{corpus.sha256}:{data.seq_len}"


class StreamSamples:
    """Windows of seq_len + 1 bytes, `stride` bytes apart, whatever lies in them."""

    def __init__(self, corpus: Corpus, data: DataConfig) -> None:
        self._length, self._stride = data.seq_len + 1, data.stride or data.seq_len
        sized = zip(data.source_names(), corpus.sources, strict=True)
        self._counts = [_num_windows(name, len(text), data.seq_len, self._stride) for name, text in sized]
        self._text = np.concatenate(corpus.sources)
        self._first_byte = _starts(corpus.sources)

    @property
    def counts(self) -> Sequence[int]:
        return self._counts

    def read(self, source_B: Ints, index_B: Ints) -> Rows:
        start_B = self._first_byte[source_B] + index_B * self._stride
        return Rows(tokens_BS=self._text[start_B[:, None] + np.arange(self._length)].astype(np.int64))

    def costs(self, source_B: Ints, index_B: Ints) -> Ints:
        return np.full(len(index_B), self._length**2, dtype=np.int64)


class PackedSamples:
    """Rows of seq_len + 1 tokens that hold documents of one source, each ended by its zero byte."""

    def __init__(self, corpus: Corpus, data: DataConfig) -> None:
        self._length = data.seq_len + 1
        if corpus.answer is not None:
            _check_examples_fit(corpus.sources[0], data)
        self._starts = [_document_starts(text, corpus.end) for text in corpus.sources]
        self._packs = [pack_documents(np.diff(starts).tolist(), self._length) for starts in self._starts]
        self._costs_C = [packs.costs() for packs in self._packs]
        self._counts = [len(packs) for packs in self._packs]
        self._sources, self._answer = corpus.sources, corpus.answer

    @property
    def counts(self) -> Sequence[int]:
        return self._counts

    def read(self, source_B: Ints, index_B: Ints) -> Rows:
        shape = (len(index_B), self._length)
        tokens_BS, document_BS = np.zeros(shape, dtype=np.int64), np.full(shape, PADDING, dtype=np.int64)
        mask_BS = None if self._answer is None else np.zeros(shape, dtype=np.bool_)
        for row, (source, index) in enumerate(zip(source_B.tolist(), index_B.tolist(), strict=True)):
            packs, place = self._packs[source], 0
            for document, piece in enumerate(packs.pieces(index)):
                size = int(packs.length_N[piece])
                begin = self._begin(source, packs, piece)
                tokens_BS[row, place : place + size] = self._sources[source][begin : begin + size]
                document_BS[row, place : place + size] = document
                if mask_BS is not None and self._answer is not None:
                    mask_BS[row, place : place + size] = self._answer[begin : begin + size]
                place += size
        return Rows(tokens_BS=tokens_BS, document_BS=document_BS, label_mask_BS=mask_BS)

    def costs(self, source_B: Ints, index_B: Ints) -> Ints:
        pairs = zip(source_B.tolist(), index_B.tolist(), strict=True)
        return np.array([self._costs_C[source][index] for source, index in pairs], dtype=np.int64)

    def _begin(self, source: int, packs: Packs, piece: int) -> int:
        return int(self._starts[source][packs.document_N[piece]] + packs.start_N[piece])


def _starts(texts: Sequence[Tokens]) -> Ints:
    return np.concatenate([[0], np.cumsum([len(text) for text in texts])[:-1]])


def _document_starts(text: Tokens, end: int) -> Ints:
    """[D + 1] where the documents start, and the end of the last; a last one without its end counts too."""
    ends = np.flatnonzero(text == end) + 1
    tail = [len(text)] if not len(ends) or ends[-1] != len(text) else []
    return np.concatenate([[0], ends, tail]).astype(np.int64)


def _check_examples_fit(text: Tokens, data: DataConfig) -> None:
    lengths = np.diff(_document_starts(text, end=0))
    longest = int(lengths.argmax())
    if lengths[longest] > data.seq_len + 1:
        raise UserInputError(
            f"line {longest + 1} of {data.examples} has {lengths[longest]} tokens, a row {data.seq_len + 1}",
            remedy=f"raise data.seq_len to at least {lengths[longest] - 1}, or shorten the example",
        )


def _num_windows(name: str, size: int, seq_len: int, stride: int) -> int:
    if size <= seq_len:
        raise ConfigError(
            f"data.seq_len {seq_len} does not fit source '{name}' of {size} bytes",
            remedy="raise data.corpus_bytes or lower data.seq_len",
        )
    return (size - seq_len - 1) // stride + 1
