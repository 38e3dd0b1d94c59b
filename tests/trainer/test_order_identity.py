"""Which samples a step reads, and in which order, is decided before anything runs: nothing that runs can change it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_training import SMALL, Trainings, read_log, small_config
from test_child_process import wait_for_step

from contracts.events import DataRead, Scalar
from trainer import Parts, TrainConfig
from trainer.corpus import Corpus, load_corpus
from trainer.loader import Loader

STEPS = 14
KINDS: dict[str, dict[str, Scalar]] = {
    "stream": {},
    "changing mixture": {"data.mixture.changes": "3: library=0 encodings=2; 5: packages=0; 11: library=1"},
    "packed": {"data.documents": "packed"},
    "balanced": {
        "data.documents": "packed",
        "data.balance_window": 4,
        "data.seq_len": 300,
        "data.mixture.changes": "6: library=0",
    },
}


# Data-parallel ranks, context-parallel ranks, accumulated micro-batches.
TOPOLOGIES = ((1, 1, 1), (2, 1, 1), (4, 1, 1), (8, 1, 1), (1, 2, 1), (2, 2, 2), (1, 1, 8), (4, 2, 2))


def config_of(kind: str, dp_size: int, cp_size: int = 1, accumulation: int = 1) -> TrainConfig:
    sizes = {"parallel__dp_size": dp_size, "parallel__cp_size": cp_size, "parallel__accumulation": accumulation}
    return small_config(**sizes).with_overrides(KINDS[kind])


def read(kind: str, corpus: Corpus, dp_size: int, steps: Sequence[int]) -> list[str]:
    """Hashes of the steps, read in the given order by one loader."""
    loader = Loader(config_of(kind, dp_size), Parts(), corpus, None, 0)
    return [loader.read(step).sample_hash for step in steps]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10, deadline=None)
@given(
    stops=st.sets(st.integers(1, STEPS - 1), max_size=4),
    sizes=st.lists(st.sampled_from(TOPOLOGIES), min_size=5, max_size=5),
)
def test_any_restarts_with_any_ranks_read_the_same(
    kind: str, stops: set[int], sizes: list[tuple[int, int, int]], corpus: Corpus
) -> None:
    """Shows R801-3.20: resumed at any steps with other parallel sizes, each step has its ordered samples."""
    whole = Loader(config_of(kind, 1), Parts(), corpus, None, 0)
    expected = [(batch.sample_hash, batch.repeated) for batch in map(whole.read, range(STEPS))]
    assert len(set(expected)) == STEPS
    found, state = [], None
    borders = [0, *sorted(stops), STEPS]
    for first, last, topology in zip(borders, borders[1:], sizes, strict=False):
        loader = Loader(config_of(kind, *topology), Parts(), corpus, state, first)
        found += [(batch.sample_hash, batch.repeated) for batch in map(loader.read, range(first, last))]
        state = loader.state()
    assert found == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_workers", [1, 3])
def test_workers_change_nothing(kind: str, num_workers: int, corpus: Corpus) -> None:
    """Processes that each read some of the steps, last ones first, read what one process reads."""
    shares = [range(STEPS)[worker::num_workers][::-1] for worker in range(num_workers)]
    with multiprocessing.get_context("fork").Pool(num_workers) as pool:
        hashes = pool.starmap(read, [(kind, corpus, 4, share) for share in shares])
    found = dict(zip(np.concatenate(shares).tolist(), np.concatenate(hashes).tolist(), strict=True))
    assert [found[step] for step in range(STEPS)] == read(kind, corpus, 4, range(STEPS))


@pytest.mark.parametrize("kind", ["packed", "balanced"])
def test_rank_rows_are_the_same_rows(kind: str, corpus: Corpus) -> None:
    """Ranks share out the rows of a step; together they have each row once, whatever their number."""

    def rows(dp_size: int, step: int) -> list[bytes]:
        loader = Loader(config_of(kind, dp_size), Parts(), corpus, None, 0)
        return sorted(row.numpy().tobytes() for row in loader.read(step).sequences.tokens_BS)

    for step in (0, 5):
        assert rows(1, step) == rows(2, step) == rows(4, step) == rows(8, step)


def test_the_hash_is_of_the_content() -> None:
    """Equal sample numbers of another corpus, or of longer rows, are other data."""
    hashes = [
        read("stream", load_corpus(40_000), 1, [0]),
        read("stream", load_corpus(50_000), 1, [0]),
        read("packed", load_corpus(40_000), 1, [0]),
    ]
    assert len({first for (first,) in hashes}) == 3


def test_killed_at_any_step_and_resumed_with_other_ranks(trainings: Trainings, new_trainings) -> None:
    """Shows R801-3.20: SIGKILL, the same segment again, and a segment with four ranks: each step reads its samples."""
    overrides = KINDS["balanced"] | {"steps": 60, "checkpoint.every": 4, "data.seq_len": 64}
    config = TrainConfig().with_overrides(SMALL | overrides)
    loader = Loader(config, Parts(), load_corpus(config.data.corpus_bytes), None, 0)
    expected = {step + 1: loader.read(step).sample_hash for step in range(60)}
    process = trainings.start(overrides=overrides)
    wait_for_step(trainings, process, 9)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    checkpoint = sorted(Path(trainings.run_folder, "checkpoints").glob("step-*"))[-1]
    other = new_trainings().here(
        config.with_overrides({"parallel.dp_size": 4}), start_checkpoint=str(checkpoint), max_step=20
    )
    assert trainings.start(overrides=overrides, max_step=24).wait() == 0
    for trace in (read_log(trainings.run_folder), other):
        reads = [event for event in trace.events if isinstance(event, DataRead)]
        assert reads[-1].step in (20, 24)
        assert all(event.sample_hash == expected[event.step] for event in reads)
