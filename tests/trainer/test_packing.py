"""Documents in rows: nothing is lost or doubled, and the work of a row is what equation (3) says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_training import small_config

from trainer.corpus import Corpus
from trainer.packing import Packs, pack_documents
from trainer.samples import PADDING, samples_of

LENGTHS = st.lists(st.integers(1, 70), max_size=60)


def labels(packs: Packs) -> list[tuple[int, int]]:
    """(document, place) of every token that has one before it in its piece."""
    pieces = zip(packs.document_N.tolist(), packs.start_N.tolist(), packs.length_N.tolist(), strict=True)
    return [(document, start + i) for document, start, length in pieces for i in range(1, length)]


@given(lengths=LENGTHS, capacity=st.integers(2, 33))
def test_every_label_is_in_exactly_one_row(lengths: list[int], capacity: int) -> None:
    packs = pack_documents(lengths, capacity)
    assert sorted(labels(packs)) == [(d, i) for d, length in enumerate(lengths) for i in range(1, length)]
    assert set(packs.document_N.tolist()) == set(range(len(lengths)))
    assert len(packs.document_N) == int(packs.first_piece[-1])
    for pack in range(len(packs)):
        assert 0 < sum(int(packs.length_N[piece]) for piece in packs.pieces(pack)) <= capacity
    whole = [length for length in lengths if length <= capacity]
    assert sorted(packs.length_N[np.isin(packs.document_N, np.flatnonzero(np.array(lengths) <= capacity))]) == sorted(
        whole
    )


@given(lengths=LENGTHS, capacity=st.integers(2, 33))
def test_cost_is_the_sum_of_squared_lengths(lengths: list[int], capacity: int) -> None:
    """Shows R801-7.8."""
    packs = pack_documents(lengths, capacity)
    expected = [sum(int(packs.length_N[piece]) ** 2 for piece in packs.pieces(pack)) for pack in range(len(packs))]
    assert packs.costs().tolist() == expected


def test_a_document_goes_where_it_fits_best() -> None:
    packs = pack_documents([6, 8, 2, 4, 3], 10)
    assert [packs.document_N[packs.pieces(pack)].tolist() for pack in range(len(packs))] == [[0, 3], [1, 2], [4]]


@settings(max_examples=5, deadline=None)
@given(seq_len=st.sampled_from([16, 100, 1000]))
def test_rows_hold_the_documents_of_the_corpus(corpus: Corpus, seq_len: int) -> None:
    """Read back from the rows, each source has its bytes, once each but for the joint of two pieces."""
    samples = samples_of(corpus, small_config(data__seq_len=seq_len, data__documents="packed").data)
    for source, text in enumerate(corpus.sources):
        index = np.arange(samples.counts[source])
        rows = samples.read(np.full(len(index), source), index)
        assert rows.document_BS is not None
        assert rows.label_mask_BS is None
        real = rows.document_BS != PADDING
        starts = real & (np.diff(rows.document_BS, axis=1, prepend=-2) != 0)
        num_labels = len(text) - (np.count_nonzero(text == 0) + int(text[-1] != 0))
        assert int(real.sum()) - int(starts.sum()) == num_labels
        labels = np.sort(rows.tokens_BS[real & ~starts])
        ends = np.flatnonzero(text[:-1] == 0) + 1
        firsts = np.concatenate([[0], ends])
        assert np.array_equal(labels, np.sort(np.delete(text, firsts)))
        assert np.array_equal(
            samples.costs(np.full(len(index), source), index),
            [sum(np.bincount(row[row >= 0]) ** 2) for row in rows.document_BS],
        )


@pytest.mark.parametrize("window", [0, 3])
def test_padding_is_at_the_end_of_a_row_only(corpus: Corpus, window: int) -> None:
    samples = samples_of(corpus, small_config(data__documents="packed", data__balance_window=window).data)
    rows = samples.read(np.zeros(50, dtype=np.int64), np.arange(50))
    assert rows.document_BS is not None
    for tokens, document in zip(rows.tokens_BS, rows.document_BS, strict=True):
        real = document[document != PADDING]
        assert np.array_equal(document[: len(real)], real)
        assert np.array_equal(np.unique(real), np.arange(real[-1] + 1))
        assert not tokens[len(real) :].any()
        assert len(real)
