"""Opening a case of the recipe loop. Apart from the loop, because it looks at the weights' format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from context_store import Store
from context_store.canonical import content_hash
from contracts.errors import UserInputError
from contracts.events import Scalar
from loops.potential.comparison import newest_reading
from loops.potential.plan import checkpoints
from loops.potential.recipe.plan import LOOP, RecipePlan
from loops.potential.recipe.proposer import candidates
from loops.potential.subject import subject


@dataclass(frozen=True, kw_only=True)
class Wish:
    """Changes of the run's recipe to try; () lets the loop suggest some."""

    run_id: str
    changes: tuple[Mapping[str, Scalar], ...] = ()
    seeds: int = 3
    first_steps: int = 40
    num_rungs: int = 2
    main_steps: int = 0  # 0: as many as the run's own recipe
    num_items: int = 20


def open_case(store: Store, wish: Wish, at: float) -> str:
    """The case; the same one for equal wishes about the same run.

    Raises NotFound for an unknown run or one whose potential was not measured, ConfigError for a field that the
    trainer does not have, and UserInputError when nothing is left to try.
    """
    run = store.runs.get(wish.run_id)
    reading_case, reading = newest_reading(store, run.id)
    last = max(checkpoints(store, wish.run_id))
    seen = subject(store, wish.run_id, last)
    for change in wish.changes:
        seen.trained_by.config.with_overrides(change)
    tried, known = candidates(store, run.id, wish.changes, reading, reading_case)
    left_out = tuple(f"{name} was tried before: {past.observed} (negative {past.id})" for name, past in known)
    if len(tried) < 2:
        raise UserInputError(
            f"nothing is left to try for the recipe of {run.id}: {'; '.join(left_out)}",
            remedy="give other changes: lathe recipe RUN --change FIELD=VALUE",
        )
    plan = RecipePlan(
        run_id=run.id,
        candidates=tried,
        seeds=tuple(range(1, wish.seeds + 1)),
        first_steps=wish.first_steps,
        num_rungs=wish.num_rungs,
        main_steps=wish.main_steps or seen.trained_by.config.steps,
        num_items=wish.num_items,
        reading_case=reading_case,
        left_out=left_out,
        left_out_ids=tuple(str(past.id) for _, past in known),
    )
    body = replace(plan, num_parameters=seen.num_parameters).to_json()
    case_id = f"recipe-{run.id}-{content_hash(body)[:8]}"
    title = f"{len(tried) - 1} changes of the recipe of {run.name}"
    store.knowledge.open_case(case_id, project_id=run.project_id, loop=LOOP, title=title, at=at, run_id=run.id)
    store.casework.put(case_id, "plan", "plan", body, at)
    return case_id
