"""Opening a case that measures a run's potential. Apart from the loop, because it looks at the weights' format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from context_store import Store
from context_store.canonical import content_hash
from contracts.errors import UserInputError
from loops.potential.plan import LOOP, PotentialPlan, checkpoints, spread
from loops.potential.sft_recipe import SftRecipe
from loops.potential.subject import subject


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What to measure of a run; steps () are chosen, spread over the run's checkpoints.

    `epochs`: of the SFT's budget, by stage of the training; 1 for the others.
    """

    run_id: str
    steps: tuple[int, ...] = ()
    max_checkpoints: int = 6
    seeds: int = 3
    num_items: int = 40
    epochs: Mapping[str, int] = field(default_factory=dict)


def open_case(store: Store, wish: Wish, at: float) -> str:
    """The case of this measurement; the same one for equal checkpoints, seeds and items.

    Raises NotFound for an unknown run or checkpoint, UserInputError for a run whose weights cannot be read here and for
    a stage that none of the checkpoints is of.
    """
    run, known = store.runs.get(wish.run_id), checkpoints(store, wish.run_id)
    steps = tuple(sorted(wish.steps)) or spread(list(known), wish.max_checkpoints)
    subjects = [subject(store, wish.run_id, step) for step in steps]
    _check_stages(wish, {each.stage for each in subjects})
    plan = PotentialPlan(
        run_id=wish.run_id,
        steps=steps,
        seeds=tuple(range(1, wish.seeds + 1)),
        num_items=wish.num_items,
        fan_items=min(wish.num_items, PotentialPlan.fan_items),
        sft=SftRecipe(epochs=dict(wish.epochs)),
    )
    body = replace(plan, num_parameters=subjects[-1].num_parameters).to_json()
    hashes = [known[step].sha256 for step in steps]
    case_id = f"potential-{wish.run_id}-{content_hash([body, hashes])[:8]}"
    title = f"what {len(steps)} checkpoints of {run.name} can become"
    store.knowledge.open_case(case_id, project_id=run.project_id, loop=LOOP, title=title, at=at, run_id=run.id)
    store.casework.put(case_id, "plan", "plan", body, at)
    return case_id


def _check_stages(wish: Wish, known: set[str]) -> None:
    if unknown := sorted(wish.epochs.keys() - known):
        told = ", ".join(sorted(known - {""})) or "none: the run has no stages"
        raise UserInputError(f"no checkpoint is of stage '{unknown[0]}'", remedy=f"stages of these checkpoints: {told}")
    if min(wish.epochs.values(), default=1) < 1:
        raise UserInputError("the epochs of a stage are below 1", remedy="give 1 or more")
