"""How often a plan reads its sources: tokens drawn by unique tokens (R801-7.6)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from trainer.config import DataConfig
from trainer.recipe import PlannedStage, Recipe

_HEAVY = 4.0  # up to four epochs are nearly as good as new text (Muennighoff et al., arXiv 2305.16264)


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """Of one source from the first stage to the end of this one. `is_last`: no later stage reads the source."""

    stage: str
    source: str
    drawn: float  # tokens
    unique: float
    is_last: bool

    @property
    def times(self) -> float:
        return self.drawn / self.unique

    @property
    def is_heavy(self) -> bool:
        return self.times > _HEAVY


def repeats(recipe: Recipe) -> list[Repeat]:
    """For each stage the sources that it reads, as far as `recipe.stock` knows them."""
    plan, drawn, found = recipe.plan(), dict.fromkeys(recipe.stock, 0.0), list[Repeat]()
    for number, stage in enumerate(plan):
        for source, tokens in _tokens(stage).items():
            if tokens and source in drawn:
                drawn[source] += tokens
                is_last = not any(_tokens(later).get(source) for later in plan[number + 1 :])
                found.append(
                    Repeat(
                        stage=stage.name,
                        source=source,
                        drawn=drawn[source],
                        unique=recipe.stock[source],
                        is_last=is_last,
                    )
                )
    return found


def _tokens(stage: PlannedStage) -> dict[str, float]:
    """Drawn from each source over the stage, whatever weights its steps change to."""
    data = stage.config.data
    return {
        source: sum(_share(data, step, index) * steps for step, steps in _stretches(stage))
        * data.batch_size
        * data.seq_len
        for index, source in enumerate(data.source_names())
    }


def _share(data: DataConfig, step: int, index: int) -> float:
    weights = (1.0,) if data.documents == "answers" else data.mixture.at(step)
    return weights[index] / sum(weights)


def _stretches(stage: PlannedStage) -> list[tuple[int, int]]:
    """(a step, how many steps have its weights) over the stage."""
    starts = [step for step, _ in stage.config.data.mixture.schedule() if stage.first_step < step < stage.last_step]
    bounds = [stage.first_step, *starts, stage.last_step]
    return [(begin, end - begin) for begin, end in itertools.pairwise(bounds)]
