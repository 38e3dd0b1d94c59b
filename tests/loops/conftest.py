"""A world on a fresh store, and a runner that carries its effects out itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from world import NOW, World

from context_store import Store, open_store
from loops.core import Limits
from loops.debug.loop import DebugLoop, DebugOptions
from loops.runner import Runner


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """A store on a fresh database whose clock stands still, so that nothing expires."""
    with open_store(database_url, clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def world(store: Store, tmp_path: Path) -> World:
    """A project and its runs."""
    return World(store=store, folder=tmp_path)


@pytest.fixture
def new_runner(world: World) -> Callable[..., Runner]:
    """Makes a runner of the debug loop; the process is its own executor."""

    def make(*, limits: Limits | None = None, options: DebugOptions | None = None) -> Runner:
        loop = DebugLoop(world.store, options)
        return Runner(
            store=world.store,
            checkpointer=InMemorySaver(),
            loops={loop.name: loop},
            limits=limits,
            clock=lambda: NOW,
            wait=world.carry_out,
        )

    return make
