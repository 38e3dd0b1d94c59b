"""Which recipes are tried as pilots, for how long, and which of them go on. Pure.

Successive halving (Jamieson and Talwalkar 2016): each rung trains twice as long and keeps the better half. All recipes
share seeds, so that differences are paired. The last rung has seeds of its own: a recipe is never judged by the seeds
for which it was chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from context_store.canonical import content_hash
from context_store.records import Amount
from contracts.events import Scalar
from loops.potential.sft_recipe import SftRecipe

LOOP = "recipe"
BASELINE = "unchanged"
_FRESH = 1000  # what is added to the seeds of the last rung


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A recipe as changes of the run's. `why` in one sentence, `evidence` in references."""

    name: str
    overrides: Mapping[str, Scalar]
    why: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RecipePlan:
    """`first_steps` of the first of `num_rungs`; `main_steps` of the run that the decision is about.

    `reading_case`: the case whose reading of the run's potential the decision rests on. `left_out`: changes that
    negative results (`left_out_ids`) rule out, a sentence each.
    """

    run_id: str
    candidates: tuple[Candidate, ...]
    seeds: tuple[int, ...] = (1, 2, 3)
    first_steps: int = 40
    num_rungs: int = 2
    main_steps: int = 300
    num_items: int = 20
    reading_case: str = ""
    left_out: tuple[str, ...] = ()
    left_out_ids: tuple[str, ...] = ()
    num_parameters: int = 500_000
    sft: SftRecipe = field(default_factory=lambda: SftRecipe(steps=40, marks=(1.0,)))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> RecipePlan:
        fields = dict(body)
        fields |= {name: tuple(body.get(name, ())) for name in ("left_out", "left_out_ids")}
        fields["candidates"] = tuple(
            Candidate(**{**each, "evidence": tuple(each["evidence"])}) for each in body["candidates"]
        )
        fields["seeds"] = tuple(body["seeds"])
        fields["sft"] = SftRecipe(**{**body["sft"], "marks": tuple(body["sft"]["marks"])})
        return cls(**fields)

    def candidate(self, name: str) -> Candidate:
        return next(each for each in self.candidates if each.name == name)

    def steps(self, rung: int) -> int:
        return self.first_steps << rung

    def seeds_of(self, rung: int) -> tuple[int, ...]:
        is_last = rung == self.num_rungs - 1
        return tuple(seed + _FRESH for seed in self.seeds) if is_last else self.seeds


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """One training of a candidate."""

    candidate: str
    rung: int
    seed: int

    @property
    def key(self) -> str:
        return f"{self.rung}.{self.candidate}.{self.seed}"


def pilots(plan: RecipePlan, rung: int, names: Sequence[str]) -> list[Pilot]:
    return [Pilot(candidate=name, rung=rung, seed=seed) for seed in plan.seeds_of(rung) for name in names]


def price(plan: RecipePlan, rung: int) -> Amount:
    """Upper estimate of one pilot: trained from its beginning, tuned and scored."""
    size = plan.num_parameters / 5e5
    return Amount(cpu_s=45.0 + size * (0.6 * (plan.steps(rung) + plan.sft.steps) + 2.0 * plan.num_items))


def survivors(plan: RecipePlan, rung: int, scores: Mapping[str, Mapping[int, float]]) -> list[str]:
    """Who goes on after a rung: the unchanged recipe, and the better half of the others by score after tiny SFT.

    `scores`: by candidate and seed; a candidate without all seeds (its pilot failed) does not go on.
    """
    complete = [name for name, by_seed in scores.items() if set(by_seed) >= set(plan.seeds_of(rung))]
    others = [name for name in complete if name != BASELINE]
    means = {name: float(np.mean([scores[name][seed] for seed in plan.seeds_of(rung)])) for name in others}
    best = sorted(others, key=lambda name: (-means[name], name))[: -(-len(others) // 2)]
    return [name for name in [BASELINE, *best] if name in complete]


def name_of(overrides: Mapping[str, Scalar]) -> str:
    """Short, the same for equal changes and another one for others."""
    text = ",".join(f"{key}={value}" for key, value in sorted(overrides.items()))
    return text if 0 < len(text) <= 60 else f"change-{content_hash(dict(overrides))[:8]}"
