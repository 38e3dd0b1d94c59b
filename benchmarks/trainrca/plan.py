"""Which cases there are: kind, seed, decoys, and what makes each hard. Any beginning of it is a fair mixture."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.trainrca.kinds import Kind

HEALTHY = "healthy"
NUM_HEALTHY = 52
NUM_NOISE = 12  # of the healthy: nothing but another seed
REPEATS = {"interaction": 5}  # cases of each kind of a family, each with seed, decoys and hardness of its own
_REPEATS = 2  # of all others
NUM_LARGE = 6  # cases of 130 commits and 106 changed fields
LOOK_ALIKES = {  # kind -> another that shows the same symptom, for the memory arms
    "labels_moved": "shard_numbered_otherwise",
    "rate_times_hundred": "rate_at_resume",
    "second_moment_lost": "moments_swapped",
    "held_out_scaled": "labels_of_another_page",
    "sum_for_mean": "norm_of_the_sum",
    "leftover_pages": "mixture_at_resume",
}
LARGE_COMMITS, LARGE_FIELDS = 130, 106


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One case to be made. `group` 0: it stands alone; else cases of a group are of one project, ordered by `turn`.

    `hardness`: `injected` (text that steers), `large`, `no_checkpoints` (nothing can be re-run), `few_series`.
    """

    kind: str
    trainer: str
    seed: int
    num_decoys: int
    hardness: tuple[str, ...] = ()
    group: int = 0
    recurrence: str = ""
    turn: int = 0

    @property
    def id(self) -> str:
        """Says nothing of the kind, and sorts a group's cases in their order."""
        rest = random.Random(repr(self)).randrange(16**6)
        return f"g{self.group:02d}-{self.turn}-{rest:06x}" if self.group else f"c-{rest:06x}"

    @property
    def project_name(self) -> str:
        return f"team-{self.group:02d}" if self.group else self.id


def plan(kinds: Sequence[Kind]) -> list[Wanted]:
    """All cases, in an order whose beginning holds each sort. Late kinds come last."""
    singles = [_single(kind, turn) for kind in kinds if not kind.late for turn in _turns(kind)]
    large = [replace(each, hardness=(*each.hardness, "large")) for each in singles if each.trainer == "clusters"]
    chosen = random.Random("large").sample(large, NUM_LARGE)
    replaced = {each.id: each for each in singles} | {
        replace(each, hardness=tuple(h for h in each.hardness if h != "large")).id: each for each in chosen
    }
    order = list(replaced.values())
    random.Random("order").shuffle(order)
    mixed = _interleaved(order, _healthy(), _groups(kinds))
    return mixed + [_single(kind, turn) for kind in kinds if kind.late for turn in _turns(kind)]


def _turns(kind: Kind) -> range:
    return range(REPEATS.get(kind.family, _REPEATS))


def _single(kind: Kind, turn: int) -> Wanted:
    rng = random.Random(f"{kind.name} {turn}")
    hardness = [name for name, share in (("injected", 0.12), ("no_checkpoints", 0.06)) if rng.random() < share]
    if kind.trainer == "clusters" and kind.family not in ("evaluation", "measurement") and rng.random() < 0.1:
        hardness.append("few_series")
    return Wanted(
        kind=kind.name,
        trainer=kind.trainer,
        seed=rng.randrange(1, 10_000),
        num_decoys=rng.randint(3, 12 if kind.trainer == "moe" else 30),
        hardness=tuple(hardness),
    )


def _healthy() -> list[Wanted]:
    found = []
    for number in range(NUM_HEALTHY):
        rng = random.Random(f"healthy {number}")
        trainer = ("moe", "clusters", "huggingface")[number % 3]
        hardness = ("injected",) if number % 8 == 3 else ("large",) if number in (4, 10) else ()
        decoys = 0 if number < NUM_NOISE and not hardness else rng.randint(3, 12 if trainer == "moe" else 30)
        found.append(
            Wanted(kind=HEALTHY, trainer=trainer, seed=rng.randrange(1, 10_000), num_decoys=decoys, hardness=hardness)
        )
    return found


def _groups(kinds: Sequence[Kind]) -> list[Wanted]:
    trainers = {kind.name: kind.trainer for kind in kinds}
    found = []
    for group, (name, other) in enumerate(LOOK_ALIKES.items(), start=1):
        rng = random.Random(f"group {name}")
        decoys = rng.randint(4, 12)
        later = [(name, "repeat"), (other, "look_alike")]
        rng.shuffle(later)
        for turn, (kind, recurrence) in enumerate([(name, "first"), *later]):
            found.append(
                Wanted(
                    kind=kind,
                    trainer=trainers[kind],
                    seed=rng.randrange(1, 10_000),
                    num_decoys=decoys,
                    group=group,
                    recurrence=recurrence,
                    turn=turn,
                )
            )
    return found


def _interleaved(*rows: Sequence[Wanted]) -> list[Wanted]:
    """All, so that each row is used up evenly."""
    placed = [
        ((number + 0.5) / len(row), order, each) for order, row in enumerate(rows) for number, each in enumerate(row)
    ]
    return [each for _, _, each in sorted(placed, key=lambda p: (p[0], p[1]))]
