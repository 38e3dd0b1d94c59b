"""A run in small, when re-runs at full size cost more than the case may spend: the same questions, asked of a smaller
training from random weights.

Of the executions that the budget allows, those at full size come first, since only they can prove. What a smaller
training shows is a pointer: its scope is `same_code_small`, nothing is proven or excluded by it, and no fix follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from contracts.enums import DiagnosticKind, Verdict
from contracts.events import Scalar
from loops.debug.facts import Decision, Experiment, Facts, Identity, Seen

LEAST_RERUNS = 5  # of a proof: replay, control, revert, add, placebo
_LEAST_LENGTH = 16  # tokens of a sequence
_SHARE = 4  # of the sequences of a step, one in so many is kept, but at least one for each rank

Plan = Callable[[Facts], tuple[Experiment, ...] | Decision]


def smaller(declared: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Overrides for fewer and shorter sequences; empty when the configuration does not say how many there are.

    The model stays as it is, since an anomaly may lie in any layer of it.
    """
    batch, length = declared.get("data.batch_size"), declared.get("data.seq_len")
    if not isinstance(batch, int) or not isinstance(length, int):
        return {}
    ranks = _count(declared, "parallel.dp_size") * _count(declared, "parallel.accumulation")
    chunks = 2 * _count(declared, "parallel.cp_size")
    shorter = length // 2 // chunks * chunks
    kept = max(ranks, batch // _SHARE // ranks * ranks)
    return {
        **({"data.batch_size": kept} if kept < batch else {}),
        **({"data.seq_len": shorter} if shorter >= _LEAST_LENGTH else {}),
    }


def share_left(declared: Mapping[str, Scalar]) -> float:
    """Tokens of a smaller step over those of a step as declared; 1.0 when it cannot be made smaller."""
    left = 1.0
    for key, value in smaller(declared).items():
        whole = declared[key]
        assert isinstance(value, int)
        assert isinstance(whole, int)
        left *= value / whole
    return left


def is_dear(cost_s: float, small_cost_s: float, budget_s: float) -> bool:
    """True when a proof cannot be paid for, but the same re-runs in small can."""
    return LEAST_RERUNS * cost_s > budget_s >= LEAST_RERUNS * small_cost_s


def in_small(facts: Facts, plan: Plan) -> tuple[Experiment, ...] | Decision:
    """What `plan` asks for, in small; its decision becomes a pointer."""
    small = replace(
        facts,
        ranked=facts.changes,
        seen=lambda identity: facts.seen(identity._replace(small=True)),
        exact=None,
        fresh_seeds=(),
        seat=None,
        is_dear=False,
    )
    step = plan(small)
    if not isinstance(step, Decision):
        return tuple(
            replace(each, kind=DiagnosticKind.PROXY, label=f"in small: {each.label}", small=True) for each in step
        )
    dear = "re-runs at full size cost more than this case may spend"
    if step.verdict is not Verdict.PROVEN:
        return replace(step, reason=f"{dear}, and in a smaller training {step.reason}", baseline=facts.control)
    names = " and ".join(facts.title(key) for key in step.cause)
    return Decision(
        verdict=Verdict.CANNOT_TELL,
        reason=f"{dear}; a smaller training points to {names}: {step.reason}",
        baseline=facts.control,
    )


def seen_in_small(facts: Facts, key: str) -> Seen | None:
    """What the smaller training without one change showed."""
    return facts.seen(Identity(on=facts.everything - {key}, small=True))


def _count(declared: Mapping[str, Scalar], key: str) -> int:
    value = declared.get(key)
    return value if isinstance(value, int) else 1
