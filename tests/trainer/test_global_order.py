"""The order of the samples: a pure function of position, whatever reads it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_training import Trainings, small_config

from contracts.errors import ConfigError, UserInputError
from contracts.events import CheckpointSaved, DataRead, Effective
from trainer import BatchLayout, Parts
from trainer.config import SOURCES
from trainer.corpus import Corpus, load_corpus
from trainer.loader import Loader
from trainer.order import GlobalOrder, MixtureEvent
from trainer.parts import rank_positions

COUNTS = (50, 40, 30, 20)
START = MixtureEvent(start=0, seed=1, weights=(4.0, 3.0, 2.0, 1.0))


def first_ids(events: list[MixtureEvent], count: int = 400) -> np.ndarray:
    return GlobalOrder(COUNTS, events, shuffle=True).ids(np.arange(count))


@given(step=st.integers(0, 1000), batch=st.sampled_from([8, 16, 64]), dp_size=st.sampled_from([1, 2, 4, 8]))
def test_ranks_share_the_positions_of_a_step(step: int, batch: int, dp_size: int) -> None:
    """Shows R801-3.20: the union over the ranks is the same for every data-parallel size."""
    layout = BatchLayout(batch_size=batch, dp_size=dp_size)
    ranks = [rank_positions(step, rank, layout) for rank in range(dp_size)]
    assert np.array_equal(np.stack(ranks, axis=1).reshape(-1), np.arange(step * batch, (step + 1) * batch))


def test_order_does_not_depend_on_the_data_parallel_size(trainings: Trainings, new_trainings) -> None:
    """Shows R801-3.20: each step reads the same samples with 1, 2, 4 and 8 ranks, and across a resume at any step."""

    def reads(trace) -> list[tuple[int, str, int]]:
        return [(e.step, e.sample_hash, e.position) for e in trace.of(DataRead)]

    expected = reads(trainings.here(small_config(parallel__dp_size=1, checkpoint__every=1)))
    assert len({sample_hash for _, sample_hash, _ in expected}) == 6
    for dp_size in (2, 4, 8):
        assert reads(new_trainings().here(small_config(parallel__dp_size=dp_size))) == expected
    for step in (1, 4, 5):
        checkpoint = trainings.run_folder / "checkpoints" / f"step-{step:06d}"
        resumed = new_trainings().here(small_config(parallel__dp_size=8), start_checkpoint=str(checkpoint))
        assert reads(resumed) == expected[step:]
        assert all(values["repeated_samples"] == 0 for values in resumed.metrics.values())


@settings(max_examples=20)
@given(cut=st.integers(1, 300), size=st.integers(1, 64))
def test_order_is_read_the_same_in_any_pieces(cut: int, size: int) -> None:
    whole = first_ids([START])
    order = GlobalOrder(COUNTS, [START], shuffle=True)
    assert np.array_equal(order.ids(np.arange(cut, cut + size)), whole[cut : cut + size])
    assert np.array_equal(order.ids(np.arange(400)), whole)


def test_each_epoch_reads_every_sample_once() -> None:
    ids = first_ids([MixtureEvent(start=0, seed=1, weights=(0.0, 0.0, 0.0, 1.0))], 60)
    for epoch in np.split(ids, 3):
        assert sorted(epoch) == list(range(120, 140))
    assert not np.array_equal(ids[:20], ids[20:40])


def test_few_samples_already_hold_the_mixture() -> None:
    order = GlobalOrder(COUNTS, [START], shuffle=True)
    for batch in np.split(order.source_of(order.ids(np.arange(400))), 20):
        assert np.abs(np.bincount(batch, minlength=4) - np.array([8, 6, 4, 2])).max() <= 2


@settings(max_examples=20)
@given(start=st.integers(1, 130), seed=st.integers(1, 2))
def test_a_mixture_event_keeps_the_past_and_repeats_nothing(start: int, seed: int) -> None:
    """Positions before the event keep their samples; within an epoch nothing is read twice, even under a new seed."""
    event = MixtureEvent(start=start, seed=seed, weights=(1.0, 1.0, 1.0, 1.0))
    ids = first_ids([START, event], 130)
    assert np.array_equal(ids[:start], first_ids([START])[:start])
    for source, count in enumerate(COUNTS):
        own = ids[(ids >= sum(COUNTS[:source])) & (ids < sum(COUNTS[: source + 1]))][:count]
        assert len(np.unique(own)) == len(own)


def test_mixture_changed_on_resume_adds_an_event(trainings: Trainings, new_trainings) -> None:
    trainings.here(small_config())
    checkpoint = str(trainings.run_folder / "checkpoints" / "step-000004")
    changed = small_config(data__mixture__library=0.0, steps=8)
    values = new_trainings().here(changed, start_checkpoint=checkpoint).metrics
    assert list(values) == [5, 6, 7, 8]
    assert all(v["mixture/source.library"] == 0.0 and v["repeated_samples"] == 0 for v in values.values())


def test_a_mixture_changes_at_its_step(trainings: Trainings, new_trainings) -> None:
    """From the fourth step on another source alone; the change is recorded, and a resume anywhere keeps every bit."""
    config = small_config(
        data__mixture__changes="3: library=0 packages=0 documentation=0; 5: library=1 encodings=0", checkpoint__every=1
    )
    trace = trainings.here(config)
    shares = [[v[f"mixture/source.{name}"] for name in SOURCES] for v in trace.metrics.values()]
    assert all(min(share) > 0 for share in shares[:3])
    assert shares[3:] == [[0, 0, 0, 1], [0, 0, 0, 1], [1, 0, 0, 0]]
    changes = {event.step: event.values for event in trace.of(Effective)}
    assert changes[1]["data.mixture.library"] == 0.4
    assert changes[4] == {f"data.mixture.{name}": 0.0 for name in SOURCES[:3]}
    assert changes[6] == {"data.mixture.library": 1.0, "data.mixture.encodings": 0.0}
    hashes = {event.step: event.sha256 for event in trace.of(CheckpointSaved)}
    for step in (2, 3, 4):
        start = str(trainings.run_folder / "checkpoints" / f"step-{step:06d}")
        resumed = new_trainings().here(config, start_checkpoint=start)
        assert resumed.metrics == {s: values for s, values in trace.metrics.items() if s > step}
        assert {e.step: e.sha256 for e in resumed.of(CheckpointSaved)} == {s: hashes[s] for s in range(step + 1, 7)}


def test_loader_that_reads_old_positions_is_noticed(trainings: Trainings, new_trainings) -> None:
    """Shows R801-3.20: samples read twice after a resume are counted by the trainer, not by the project."""
    trainings.here(small_config())

    def half_as_far(step: int, rank: int, config: BatchLayout) -> np.ndarray:
        return rank_positions(step, rank, config) - step * config.batch_size // 2

    checkpoint = str(trainings.run_folder / "checkpoints" / "step-000004")
    resumed = new_trainings().here(small_config(), Parts(rank_positions=half_as_far), start_checkpoint=checkpoint)
    assert resumed.metrics[5]["repeated_samples"] == 8
    assert resumed.metrics[5]["data_position"] == 24


def test_batch_size_may_change_on_resume(trainings: Trainings, new_trainings) -> None:
    """Reading goes on behind what was read."""
    trainings.here(small_config())
    checkpoint = str(trainings.run_folder / "checkpoints" / "step-000004")
    resumed = new_trainings().here(small_config(data__batch_size=4), start_checkpoint=checkpoint)
    assert [v["data_position"] for v in resumed.metrics.values()] == [36, 40]
    assert all(v["repeated_samples"] == 0 for v in resumed.metrics.values())


@pytest.mark.parametrize("wrong", [np.array([0, 1, 2]), np.array([0.0, 1, 2, 3]), np.array([-1, 0, 1, 2])])
def test_wrong_positions_are_refused(wrong: np.ndarray, corpus: Corpus) -> None:
    loader = Loader(small_config(), Parts(rank_positions=lambda step, rank, config: wrong), corpus, None, 0)
    with pytest.raises(UserInputError, match=r"rank_positions\(step=0, rank=0\)"):
        loader.read(0)


def test_corpus_is_deterministic_and_bounded() -> None:
    first, second = load_corpus(100_000), load_corpus(100_000)
    assert first.sha256 == second.sha256 != load_corpus(50_000).sha256
    assert [len(source) for source in first.sources] == [25_000] * 4
    assert b"def " in first.sources[0].tobytes()


def test_sequence_longer_than_a_source_is_refused(corpus: Corpus) -> None:
    with pytest.raises(ConfigError, match=r"data.seq_len 20000 does not fit source 'library'"):
        Loader(small_config(data__seq_len=20_000, model__rope_base=1e6), Parts(), corpus, None, 0)
