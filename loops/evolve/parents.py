"""Which commit a round starts from."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Search(StrEnum):
    """greedy: from what was accepted last; best_of_n: always from the first; archive: from any, by its clade."""

    GREEDY = "greedy"
    BEST_OF_N = "best_of_n"
    ARCHIVE = "archive"


@dataclass(frozen=True, kw_only=True)
class Node:
    """A commit of the archive. `passed` of `episodes` on the fix split, never on the gate."""

    commit: str
    parent: str | None
    passed: float
    episodes: int


def choose(search: Search, nodes: Sequence[Node], incumbent: str, chance: random.Random) -> str:
    """The parent's commit. The archive draws each node's clade from Beta(1 + passed, 1 + failed) and takes the best.

    A clade is a node with all that descends from it: what its offspring can do says more about where to search than
    what it can do itself (Huxley-Goedel machine, ICLR 2026).
    """
    if search is Search.GREEDY or not nodes:
        return incumbent
    if search is Search.BEST_OF_N:
        return next(node.commit for node in nodes if node.parent is None)
    draws = {
        commit: chance.betavariate(1.0 + passed, 1.0 + failed) for commit, (passed, failed) in clades(nodes).items()
    }
    return max(draws, key=lambda commit: (draws[commit], commit))


def clades(nodes: Sequence[Node]) -> Mapping[str, tuple[float, float]]:
    """(passed, failed) of each commit's clade."""
    parents = {node.commit: node.parent for node in nodes}
    sums = {node.commit: (0.0, 0.0) for node in nodes}
    for node in nodes:
        commit: str | None = node.commit
        while commit is not None and commit in sums:
            passed, failed = sums[commit]
            sums[commit] = (passed + node.passed, failed + node.episodes - node.passed)
            commit = parents.get(commit)
    return sums
