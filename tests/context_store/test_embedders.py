"""The embedders that need no network."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from context_store.embedding import DIMENSIONS, HashedEmbedder, default_embedder
from context_store.minilm import PACKAGE, MiniLm

installed = importlib.util.find_spec(PACKAGE) is not None


def test_hashed_words_are_the_same_everywhere_and_near_for_related_forms() -> None:
    one, same, related, other, empty = HashedEmbedder().embed(
        ["Router balance", "router, BALANCE", "balancing routers", "tokenizer vocabulary", "..."]
    )
    assert one.shape == (DIMENSIONS,)
    assert np.array_equal(one, same)
    assert one @ related > 0.3 > one @ other
    assert not empty.any()
    assert np.flatnonzero(HashedEmbedder().embed(["loss"])[0]).tolist() == [47, 137, 350]


def test_the_default_is_the_model_where_it_is_installed() -> None:
    assert default_embedder().name == ("all-minilm-l6-v2" if installed else "hashed-words-1")


@pytest.mark.skipif(not installed, reason="needs lathe[search]")
def test_minilm_gives_the_published_cosines_alone_and_in_a_batch() -> None:
    """The three sentences and cosines of the model's own card."""
    texts = ["That is a happy person", "That is a happy dog", "Today is a sunny day"]
    embedder = MiniLm()
    together = embedder.embed(texts)
    assert together @ together[0] == pytest.approx([1.0, 0.695, 0.257], abs=0.002)
    long = embedder.embed(["x " * 5000, *texts])[1:]
    assert np.allclose(long, together, atol=1e-4), "what is in the same batch changes nothing"
    assert np.allclose(np.concatenate([embedder.embed([text]) for text in texts]), together, atol=1e-4)
