"""All loops, one line each. A new loop is a folder with a class that implements `loops.core.Loop`, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from context_store import Store
from contracts.errors import UserInputError
from loops.core import Charter, Loop

LOOPS: Mapping[str, str] = {
    "debug": "loops.debug.loop:DebugLoop",
}


def build_loops(store: Store, loops: Mapping[str, str] = LOOPS) -> dict[str, Loop]:
    """Every registered loop by name. Raises UserInputError for one without a charter (R801-1.4)."""
    return {name: _build(name, place, store) for name, place in loops.items()}


def _build(name: str, place: str, store: Store) -> Loop:
    module, _, attribute = place.partition(":")
    factory: Callable[[Store], Loop] = getattr(import_module(module), attribute)
    loop = factory(store)
    if not isinstance(getattr(loop, "charter", None), Charter):
        raise UserInputError(
            f"the loop '{name}' has no charter", remedy="give it a loops.core.Charter that says which link it repairs"
        )
    return loop
