"""Tasks without end from reasoning-gym, where it is installed (Apache-2.0): arithmetic, logic, algorithms, games."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util

from contracts.errors import EnvironmentFault, NotFound
from loops.evals.task import Item, Task

_NUM_EXAMPLES = 8


def task(name: str, num_items: int, seed: int = 0) -> Task:
    """Items of one data set of reasoning-gym, for instance `gsm_symbolic`. Its answers are compared as text or number.

    Raises EnvironmentFault where it is not installed, NotFound for a data set it does not have.
    """
    if importlib.util.find_spec("reasoning_gym") is None:
        raise EnvironmentFault("reasoning-gym is not on this machine", remedy='pip install -e ".[evals]"')
    gym = importlib.import_module("reasoning_gym")
    try:
        drawn = list(gym.create_dataset(name, size=num_items + _NUM_EXAMPLES, seed=seed))
    except ValueError as error:
        raise NotFound(
            f"reasoning-gym has no data set '{name}' ({error})", remedy="see reasoning_gym.factory"
        ) from error
    items = tuple(
        Item(id=f"{name}-{number}", question=str(entry["question"]).strip(), answer=str(entry["answer"]))
        for number, entry in enumerate(drawn)
    )
    version = importlib.metadata.version("reasoning-gym")
    return Task(
        name=f"gym_{name}",
        version=1,
        group="reasoning",
        items=items[_NUM_EXAMPLES:],
        examples=items[:_NUM_EXAMPLES],
        source=f"reasoning-gym {version}",
        licence="Apache-2.0",
        settings={"seed": seed},
    )
