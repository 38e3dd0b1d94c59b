"""Doors to scripted servers. The servers and litellm are real; nothing leaves the machine."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from doors import PLENTY, NewDoor

from agents.llm import Door, DoorConfig, LiteLLMModel, LocalBudget, Outside
from agents.llm.accounting import Budget
from benchmarks.agent_parts.stored_case import NOW, Stored, lay_out
from context_store import Store, open_store


@pytest.fixture
def waits() -> list[float]:
    """What doors slept, in seconds; nobody really waits."""
    return []


@pytest.fixture
def new_door(waits: list[float]) -> NewDoor:
    numbers = itertools.count()

    def make(*models: LiteLLMModel, budget: Budget | None = None, config: DoorConfig | None = None) -> Door:
        outside = Outside(clock=time.monotonic, sleep=waits.append, new_id=lambda: str(next(numbers)))
        return Door(models, budget or LocalBudget(PLENTY), outside, config)

    return make


@pytest.fixture
def still_store(database_url: str) -> Iterator[Store]:
    """A store whose clock stands still, so that nothing expires."""
    with open_store(database_url, clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def stored(still_store: Store, tmp_path: Path) -> Stored:
    """A case in `still_store`."""
    return lay_out(still_store, tmp_path / "world")
