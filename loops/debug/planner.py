"""Which re-run next: the cheapest one by what is still unknown (design section 5.2). Pure: facts in, step out.

All re-runs of a case take about as long, so the price of finding the cause is counted in re-runs: leaving one change
out costs one and finds it with the chance that its rank gives; halving n of them costs 2 ceil(log3 n) + 1 and finds it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from contracts.enums import CauseKind, DiagnosticKind, Verdict
from loops.debug.facts import Decision, Experiment, Facts, On, Option, Seen, cannot, confounded_with, unseen
from loops.debug.places import by_place, stays
from loops.debug.small import in_small

_FIRST_OF = "the first "
MAX_PARTNERS = 4  # single reverts in search of a partner before halving begins
MAX_PLACEBOS = 2
_SHARED = "what all these re-runs share is left (machine, environment, files outside the project, the checkpoint)"
_MORE_THAN_ONE = "more than one change contributes"

Step = tuple[Experiment, ...] | Decision


def next_step(facts: Facts) -> Step:
    """The next batch of independent re-runs, or the decision."""
    if facts.is_dear:
        return in_small(facts, next_step)
    at_place = by_place(facts, _repeats(facts) if facts.exact is False else ())
    return at_place or _establish(facts) or _search(facts, _baseline(facts))


def unnecessary(facts: Facts) -> tuple[str, ...]:
    """What was left out, alone, with the anomaly still in place: something else may bring it about as well."""
    return tuple(o.key for o in facts.ranked if facts.seen(facts.leaving_out(o.key)) is Seen.PRESENT)


def refuted(facts: Facts, decision: Decision) -> tuple[str, ...]:
    """Unnecessary changes that are excluded: something else is proven, or added alone they did nothing.

    Never one that brought the anomaly about when it was added alone: of two causes, neither is necessary.
    """
    baseline = _baseline(facts)
    alone = {key: facts.at(baseline | {key}) for key in unnecessary(facts) if key not in baseline | {*decision.cause}}
    others = [key for key in unnecessary(facts) if key in baseline]
    proven = decision.verdict is Verdict.PROVEN
    free = [key for key, result in alone.items() if result is Seen.ABSENT or (proven and result is not Seen.PRESENT)]
    return (*free, *(others if proven else ()))


# --- is there something to explain ----------------------------------------------------------------------------


def _establish(facts: Facts) -> Step | None:
    """Replay and control; then, if the control shows the anomaly too, an earlier control or the circumstances."""
    replay = Experiment(kind=DiagnosticKind.REPLAY, label="the same code again", on=facts.everything)
    control = Experiment(kind=DiagnosticKind.CONTROL, label="the last good code", on=facts.control)
    if missing := unseen(facts, [replay, control]):
        return missing
    if facts.exact is False and (missing := unseen(facts, _repeats(facts))):
        return missing
    if facts.at(facts.everything) is Seen.IMPOSSIBLE:
        return cannot("the same code could not be run again from the same checkpoint, so that nothing can be compared")
    if facts.at(facts.everything) is Seen.PARTIAL:
        return cannot("only part of the anomaly comes back when the same code runs again from the same checkpoint")
    if facts.at(facts.everything) is not Seen.PRESENT:
        return cannot("the anomaly does not come back when the same code runs again from the same checkpoint")
    again = [facts.seen(repeat.identity) for repeat in _repeats(facts)] if facts.exact is False else []
    if any(result is not Seen.PRESENT for result in again):
        return cannot("the anomaly does not come back in each of three runs of the same code from the same checkpoint")
    if facts.at(facts.control) is Seen.ABSENT:
        return None
    return _beyond_control(facts)


def _repeats(facts: Facts) -> list[Experiment]:
    """Two more replays: a run that is not bitwise equal to the recorded one shows how much equal runs scatter."""
    return [
        Experiment(kind=DiagnosticKind.REPLAY, label=label, on=facts.everything, repeat=number)
        for number, label in enumerate(("the same code a second time", "the same code a third time"), start=1)
    ]


def _beyond_control(facts: Facts) -> Step | None:
    if facts.at(facts.control) is Seen.IMPOSSIBLE:
        return cannot("the last good code cannot be run from this checkpoint, so there is no control")
    if facts.control:
        first = Experiment(kind=DiagnosticKind.CONTROL, label="the first code of this run", on=frozenset())
        if missing := unseen(facts, [first]):
            return missing
        if facts.at(frozenset()) is Seen.ABSENT:
            return None
    if facts.at(facts.control) is Seen.PARTIAL:
        return cannot("the last good code shows part of the anomaly: more than one change contributes")
    return _circumstances_alone(facts)


def _circumstances_alone(facts: Facts) -> Step:
    """The control shows the anomaly as well: only the way the run was resumed is left."""
    tests = [_without(facts, circumstance) for circumstance in _circumstances(facts)]
    if missing := unseen(facts, tests):
        return missing
    cured = [option for option, test in zip(_circumstances(facts), tests, strict=True) if _is_absent(facts, test)]
    if not cured:
        nothing = confounded_with(facts.confounded) or "nothing that Lathe can see had changed when it began"
        among = f"the last good code shows the anomaly too, so its cause is not among these changes: {_SHARED}"
        said = [among, confounded_with(facts.confounded)] if facts.changes else [nothing, stays(facts)]
        return cannot("; ".join(filter(None, said)))
    if also := _also_cures(facts, frozenset()):
        return cannot(f"leaving out {facts.title(also)} cures as well, although the last good code shows it")
    placebo = _placebo(facts, frozenset())
    if isinstance(placebo, tuple):
        return placebo
    return Decision(
        verdict=Verdict.PROVEN,
        reason=f"undoing {cured[0].title} cures, and the last good code with it shows the anomaly",
        cause_kind=cured[0].cause_kind,
        cause=(cured[0].key,),
        baseline=facts.control,
        placebo=placebo,
    )


# --- which change ---------------------------------------------------------------------------------------------


def _baseline(facts: Facts) -> On:
    return facts.control if facts.at(facts.control) is Seen.ABSENT else frozenset()


def _search(facts: Facts, baseline: On) -> Step:
    """The most suspicious change left out alone, or halving, by what finds more for its price; the first change that
    cures is to be confirmed."""
    candidates = [option for option in facts.changes if option.key not in baseline | facts.inert]
    for option in candidates:
        if facts.at(facts.everything - {option.key}) is Seen.ABSENT:
            return _confirm(facts, baseline, option.key)
    untried = [option for option in candidates if facts.at(facts.everything - {option.key}) is None]
    if untried and _chance(untried) >= 1.0 / _price_of_halving(len(untried)):
        return _with_placebo(facts, [_revert(facts, untried[0].key)], untried[0].key)
    return _halve(facts, baseline)


def _chance(options: Sequence[Option]) -> float:
    """That the first one is the cause, if one of them is."""
    total = sum(option.weight for option in options)
    return options[0].weight / total if total > 0.0 else 1.0 / len(options)


def _price_of_halving(num_changes: int) -> int:
    """Re-runs: two points at a time leave a third, and what is found is left out once more."""
    return 2 * math.ceil(math.log(num_changes, 3) - 1e-9) + 1


def why_next(facts: Facts, step: Sequence[Experiment], cost_s: float) -> str:
    """The reason for a single change left out, or for halving; "" for steps that are no such choice."""
    if all(e.kind is DiagnosticKind.ADD and e.label.startswith(_FIRST_OF) for e in step):
        return f"chosen since no single change stands out: halving takes fewer re-runs, of {cost_s:.0f} CPU s each"
    shown = {option.key: facts.at(facts.everything - {option.key}) for option in facts.changes}
    untried = [option for option in facts.changes if option.is_new and shown[option.key] is None]
    chosen = [option for option in untried if step[0].suspects == (option.key,)]
    if not chosen or step[0].kind is not DiagnosticKind.REVERT or Seen.ABSENT in shown.values():
        return ""
    chance, price = _chance([*chosen, *(o for o in untried if o not in chosen)]), _price_of_halving(len(untried))
    if chance < 1.0 / price:
        return ""
    return (
        f"chosen since by its rank one re-run ({cost_s:.0f} CPU s) finds the cause with a chance of {chance:.2f}, "
        f"where halving {len(untried)} changes takes {price}"
    )


def _halve(facts: Facts, baseline: On) -> Step:
    """Bisect over the order in which the changes came; the one at which the anomaly appears is to be confirmed."""
    found = _appearance(facts, baseline, frozenset())
    if isinstance(found, tuple):
        return found
    if found is None:
        return cannot(_why_not_isolated(facts))
    if missing := unseen(facts, [_revert(facts, found)]):
        return missing
    left, appears = facts.at(facts.everything - {found}), f"the anomaly appears with {facts.title(found)}"
    if left is Seen.ABSENT:
        return _confirm(facts, baseline, found)
    if left is Seen.IMPOSSIBLE:
        return cannot(f"{appears}, but the code cannot be run without it, so that this could not be cross-checked")
    if left is Seen.PARTIAL:
        return cannot(f"{appears}, but leaving it out cures only in part: {_MORE_THAN_ONE}")
    return cannot(f"{appears}, but leaving it out does not cure: more than one of these changes brings it about")


def _why_not_isolated(facts: Facts) -> str:
    partly = [o for o in facts.changes if facts.at(facts.everything - {o.key}) is Seen.PARTIAL]
    if partly:
        return f"leaving out {partly[0].title} cures only in part: {_MORE_THAN_ONE}"
    return "no single change could be isolated: the versions in between could not be run, or show it in part"


def _upto(added: Sequence[str], some: Sequence[str]) -> int:
    """How many of `added` come up to the last of `some`, so that a set stays a version of the history."""
    return added.index(some[-1]) + 1 if some else 0


def _appearance(facts: Facts, baseline: On, pinned: On) -> tuple[Experiment, ...] | str | None:
    """The change at which the anomaly appears when changes are added in order to baseline + pinned.

    Two points are asked at once. None when no untried point is left.
    """
    added = [key for key in facts.chronological if key in facts.everything - baseline - pinned]
    order = [key for key in added if key not in facts.inert]
    sets = [baseline | pinned | frozenset(added[: _upto(added, order[:k])]) for k in range(len(order))]
    sets.append(facts.everything)
    seen = [facts.at(on) for on in sets]
    high = next((k for k, result in enumerate(seen) if result is Seen.PRESENT), len(order))
    low = max((k for k in range(high) if seen[k] is Seen.ABSENT), default=0)
    if high - low == 1:
        return order[high - 1]
    open_points = [k for k in range(low + 1, high) if seen[k] is None]
    if not open_points:
        return None
    picks = {open_points[len(open_points) // 3], open_points[2 * len(open_points) // 3]}
    return tuple(
        Experiment(
            kind=DiagnosticKind.ADD,
            label=f"{_FIRST_OF}{k} of {len(order)} changes",
            on=sets[k],
            suspects=tuple(order[:k]),
        )
        for k in sorted(picks)
    )


# --- is it really this one ------------------------------------------------------------------------------------


def _confirm(facts: Facts, baseline: On, key: str) -> Step:
    """Leaving `key` out cures. Does adding it alone bring the anomaly about? Is the way of resuming needed too?"""
    add = _add(facts, baseline, (key,), DiagnosticKind.ADD)
    tests = [add, *(_without(facts, circumstance) for circumstance in _circumstances(facts))]
    if missing := unseen(facts, tests):
        return missing
    result = facts.at(add.on)
    if result is Seen.IMPOSSIBLE:
        return _confirm_in_order(facts, baseline, key)
    if result is Seen.ABSENT:
        return _partner(facts, baseline, key)
    if result is Seen.PARTIAL:
        title = facts.title(key)
        return cannot(f"leaving out {title} cures, but alone it brings about only part: {_MORE_THAN_ONE}")
    return _prove(facts, baseline, (key,), "leaving it out cures, adding it alone to the good code brings it about")


def _confirm_in_order(facts: Facts, baseline: On, key: str) -> Step:
    """The change cannot be added alone (it needs earlier lines): compare the versions just before and after it."""
    order = [k for k in facts.chronological if k in facts.everything - baseline]
    before = baseline | frozenset(order[: order.index(key)])
    label = f"all changes up to {facts.title(key)}"
    tests = [
        Experiment(kind=DiagnosticKind.CONTROL, label=f"{label}, without it", on=before, suspects=(key,)),
        Experiment(kind=DiagnosticKind.ADD, label=label, on=before | {key}, suspects=(key,)),
    ]
    if missing := unseen(facts, tests):
        return missing
    if facts.at(before) is Seen.ABSENT and facts.at(before | {key}) is Seen.PRESENT:
        return _prove(facts, baseline, (key,), "leaving it out cures, and the anomaly appears with it in the history")
    return cannot(f"leaving out {facts.title(key)} cures, but it could not be added to the good code to cross-check")


def _partner(facts: Facts, baseline: On, key: str) -> Step:
    """`key` is needed but not enough: find the change it needs, then run the 2x2."""
    others = [o.key for o in facts.changes if o.key != key and o.key not in baseline | facts.inert]
    cures = [k for k in others if facts.at(facts.everything - {k}) is Seen.ABSENT]
    if not cures:
        untried = [k for k in others[:MAX_PARTNERS] if facts.at(facts.everything - {k}) is None]
        if untried:
            return tuple(_revert(facts, k) for k in untried[:2])
        found = _appearance(facts, baseline, frozenset({key}))
        if isinstance(found, tuple):
            return found
        cures = [found] if found is not None else []
    if not cures:
        return cannot(f"leaving out {facts.title(key)} cures, but alone it does not bring the anomaly about")
    return _two_by_two(facts, baseline, key, cures[0])


def _two_by_two(facts: Facts, baseline: On, one: str, two: str) -> Step:
    both = _add(facts, baseline, (one, two), DiagnosticKind.COMBINATION)
    alone = _add(facts, baseline, (two,), DiagnosticKind.ADD)
    if missing := unseen(facts, [both, alone, _revert(facts, two)]):
        return missing
    names = f"{facts.title(one)} and {facts.title(two)}"
    cures = facts.at(facts.everything - {two}) is Seen.ABSENT
    if facts.at(both.on) is not Seen.PRESENT or facts.at(alone.on) is not Seen.ABSENT or not cures:
        return cannot(f"{names} are both involved, but the four combinations do not separate them")
    reason = "neither brings it about alone, both together do, and leaving out either one cures"
    return _prove(facts, baseline, (one, two), reason)


def _prove(facts: Facts, baseline: On, cause: tuple[str, ...], reason: str) -> Step:
    """Ask for what a proof still lacks: a placebo, and fresh seeds where the caller gave some.

    When leaving out something else cures as well, the cause is not proven alone.
    """
    names = " and ".join(facts.title(key) for key in cause)
    if also := _also_cures(facts, frozenset(cause)):
        return cannot(f"{names}: {reason}; but leaving out {facts.title(also)} cures as well")
    partly = [c.title for c in _circumstances(facts) if facts.seen(_without(facts, c).identity) is Seen.PARTIAL]
    if partly:
        return cannot(f"{names}: {reason}; but undoing {partly[0]} cures in part: {_MORE_THAN_ONE}")
    placebo = _placebo(facts, frozenset(cause))
    if isinstance(placebo, tuple):
        return placebo
    needed = [c for c in _circumstances(facts) if _is_absent(facts, _without(facts, c))]
    kinds = [option.cause_kind for option in facts.changes if option.key in cause]
    kind = CauseKind.RESUME if needed else CauseKind.INTERACTION if len(cause) > 1 else kinds[0]
    if missing := unseen(facts, [] if needed else _fresh(facts, baseline)):
        return missing
    together = f"; it needs {needed[0].title}" if needed else ""
    return Decision(
        verdict=Verdict.PROVEN,
        reason=reason + together,
        cause_kind=kind,
        cause=cause,
        baseline=baseline,
        placebo=placebo,
    )


# --- single experiments ---------------------------------------------------------------------------------------


def _revert(facts: Facts, key: str, kind: DiagnosticKind = DiagnosticKind.REVERT) -> Experiment:
    return Experiment(kind=kind, label=f"without {facts.title(key)}", on=facts.everything - {key}, suspects=(key,))


def _add(facts: Facts, baseline: On, keys: tuple[str, ...], kind: DiagnosticKind) -> Experiment:
    names = " and ".join(facts.title(key) for key in keys)
    return Experiment(kind=kind, label=f"good code with {names}", on=baseline | frozenset(keys), suspects=keys)


def _without(facts: Facts, circumstance: Option) -> Experiment:
    return Experiment(
        kind=DiagnosticKind.REVERT,
        label=f"the same code without {circumstance.title}",
        on=facts.everything,
        suspects=(circumstance.key,),
        without=frozenset({circumstance.key}),
    )


def _fresh(facts: Facts, baseline: On) -> list[Experiment]:
    sides = ((facts.everything, "faulty"), (baseline, "good"))
    return [
        Experiment(kind=DiagnosticKind.FRESH_SEED, label=f"seed {seed}, {name} code", on=on, seed=seed)
        for seed in facts.fresh_seeds
        for on, name in sides
    ]


def _placebo(facts: Facts, cause: On) -> tuple[Experiment, ...] | str | None:
    """An innocent change whose revert left the anomaly, or the re-run that is to tell, or None when there is none."""
    tried = [(key, facts.at(facts.everything - {key})) for key in facts.placebos if key not in cause]
    shown = [key for key, result in tried if result is Seen.PRESENT]
    if shown:
        return shown[0]
    unfit = sum(result in (Seen.ABSENT, Seen.PARTIAL) for _, result in tried)
    untried = [key for key, result in tried if result is None]
    if untried and unfit < MAX_PLACEBOS:
        return (_revert(facts, untried[0], DiagnosticKind.PLACEBO),)
    return None


def _also_cures(facts: Facts, cause: On) -> str | None:
    """A change outside the cause whose revert, alone, cures too."""
    others = [option.key for option in facts.changes if option.key not in cause]
    return next((key for key in others if facts.at(facts.everything - {key}) is Seen.ABSENT), None)


def _with_placebo(facts: Facts, tests: Sequence[Experiment], key: str) -> tuple[Experiment, ...]:
    """`tests`, and the placebo beside them, since two re-runs take no longer than one."""
    placebo = _placebo(facts, frozenset({key}))
    return (*tests, *placebo) if isinstance(placebo, tuple) else tuple(tests)


def _circumstances(facts: Facts) -> tuple[Option, ...]:
    return tuple(option for option in facts.ranked if option.circumstance)


def _is_absent(facts: Facts, experiment: Experiment) -> bool:
    return facts.seen(experiment.identity) is Seen.ABSENT
