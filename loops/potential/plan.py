"""What is measured of a run: which checkpoints, how often tuned, with which tasks and protocols; and at what price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from context_store import Store
from context_store.records import Amount, Checkpoint
from contracts.errors import NotFound
from loops.evals.prompts import can_ask, written
from loops.evals.protocol import Mode, Protocol, protocol
from loops.evals.task import Task
from loops.potential.sft_recipe import SftRecipe

LOOP = "potential"
SUITE_PROTOCOL = "ppl_acc_norm"  # of the score that curves are drawn of, for base and tuned alike
FAN = ("ppl_acc_norm", "0_shot_direct", "0_shot_answer_is", "0_shot_boxed", "5_shot", "3_shot_cot", "8_shot_cot")
FAN_TASKS = ("generated_add", "generated_order", "generated_index", "generated_repeat")  # one of each group


@dataclass(frozen=True, kw_only=True)
class PotentialPlan:
    """`max_checkpoints` of the run are measured, spread over it; new ones later are measured in a case of their own."""

    run_id: str
    steps: tuple[int, ...]
    seeds: tuple[int, ...] = (1, 2, 3)
    num_items: int = 40
    fan_items: int = 20
    num_parameters: int = 500_000
    sft: SftRecipe = field(default_factory=SftRecipe)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"sft_digest": self.sft.digest}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> PotentialPlan:
        sft = SftRecipe(**{**body["sft"], "marks": tuple(body["sft"]["marks"])})
        return cls(
            run_id=body["run_id"],
            steps=tuple(body["steps"]),
            seeds=tuple(body["seeds"]),
            num_items=body["num_items"],
            fan_items=body["fan_items"],
            num_parameters=body["num_parameters"],
            sft=sft,
        )


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One piece of work: a base checkpoint scored (`seed` None), or tuned with a seed and scored."""

    step: int
    seed: int | None = None

    @property
    def key(self) -> str:
        return f"{self.step}" if self.seed is None else f"{self.step}.{self.seed}"

    @property
    def work(self) -> str:
        return "base" if self.seed is None else "tune"


def units(plan: PotentialPlan) -> list[Unit]:
    """All pieces. Bases first; then seed by seed, the first and last checkpoint before those between."""
    order = list(dict.fromkeys([plan.steps[0], plan.steps[-1], *plan.steps]))
    bases = [Unit(step=step) for step in order]
    return bases + [Unit(step=step, seed=seed) for seed in plan.seeds for step in order]


def price(plan: PotentialPlan) -> Amount:
    """Upper estimate of one piece: its process is ended when it needs more."""
    size, steps = plan.num_parameters / 5e5, plan.sft.steps * max(plan.sft.epochs.values(), default=1)
    return Amount(cpu_s=45.0 + size * (1.5 * plan.num_items + 6.0 * plan.fan_items + 0.5 * steps))


def fan_protocols(tasks: Sequence[Task]) -> list[Protocol]:
    """The protocols of the fan, with as many tokens as the longest answer in their form has bytes."""
    return [_cut(protocol(name), tasks) for name in FAN]


def _cut(each: Protocol, tasks: Sequence[Task]) -> Protocol:
    asked = [task for task in tasks if can_ask(task, each)]
    sizes = [len(written(item, each).encode()) for task in asked for item in (*task.items, *task.examples)]
    return replace(each, max_tokens=max(sizes)) if sizes and each.mode is Mode.GENERATION else each


def spread(steps: Sequence[int], count: int) -> tuple[int, ...]:
    """At most `count` of the ascending steps: the first, the last, and evenly between."""
    if len(steps) <= count:
        return tuple(steps)
    if count == 1:
        return (steps[-1],)
    return tuple(sorted({steps[round(n * (len(steps) - 1) / (count - 1))] for n in range(count)}))


def checkpoints(store: Store, run_id: str) -> dict[int, Checkpoint]:
    """The newest checkpoint at each step after the first. Raises NotFound when the run has none that is still here."""
    found = {each.step: each for each in store.runs.checkpoints(run_id) if each.step > 0}
    if not found:
        raise NotFound(
            f"run '{run_id}' has no checkpoints to measure", remedy=f"`lathe timeline {run_id} --kind checkpoint`"
        )
    return dict(sorted(found.items()))


def by_step(kept: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept under steps, in the order of the steps: a store does not keep the order of keys."""
    return {step: kept[step] for step in sorted(kept, key=int)}
