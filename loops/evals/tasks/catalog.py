"""Tasks by name."""

from __future__ import annotations

from collections.abc import Sequence

from contracts.errors import NotFound
from loops.evals.task import Task
from loops.evals.tasks import code, generated, gym, real_text

TRAINED_BYTES = 2_000_000  # what the trainer's default corpus reads of this Python's text


def names() -> list[str]:
    """Those that need nothing but this machine; and the optional ones."""
    own = [f"generated_{name}" for families in generated.FAMILIES.values() for name in families]
    return [*own, "cloze", "kinds", "small_functions", "human_eval", "gym_NAME"]


def tasks(wanted: Sequence[str], num_items: int, seed: int = 0, trained_bytes: int = TRAINED_BYTES) -> list[Task]:
    """In order, each cut to `num_items`. `trained_bytes`: what the model may have read of this Python's text.

    Raises NotFound for a name that is none, EnvironmentFault for an optional one whose package is not installed.
    """
    return [_task(name, num_items, seed, trained_bytes) for name in wanted]


def _task(name: str, num_items: int, seed: int, trained_bytes: int) -> Task:
    for group, families in generated.FAMILIES.items():
        if name.removeprefix("generated_") in families and name.startswith("generated_"):
            return generated.task(group, name.removeprefix("generated_"), num_items, seed)
    if name.startswith("gym_"):
        return gym.task(name.removeprefix("gym_"), num_items, seed)
    match name:
        case "cloze":
            return real_text.cloze(trained_bytes, num_items, seed)
        case "kinds":
            return real_text.kinds(trained_bytes, num_items, seed)
        case "small_functions":
            return code.small().first(num_items)
        case "human_eval":
            return code.human_eval().first(num_items)
    raise NotFound(f"no task '{name}'", remedy=f"one of: {', '.join(names())}")
