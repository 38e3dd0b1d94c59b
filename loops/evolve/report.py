"""What a sceptic would ask of a run: what was tested how often, how sure, what was not looked for, the sealed end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from loops.evolve.acceptance import detectable
from loops.evolve.board import board, in_rounds, sentence, sums, total
from loops.evolve.board import lines as lines_of
from loops.evolve.ideas import SAME, likeness
from loops.evolve.journal import Body
from loops.evolve.plan import CONTROL, IDEA, PLACEBO, History

_RESAMPLES = 2000
_DISCORDANT = 0.3  # share of pairs that differ, where none has been seen


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Of the last scaffold over the first on the sealed tasks; the interval (95 %) resamples tasks and seeds."""

    first: float
    last: float
    difference: float
    low: float
    high: float
    relative: float
    relative_low: float
    relative_high: float


def gain(sealed: Body) -> Gain:
    """Scores are ordered by seed, then task; seeds of one task stay together with their task when it is drawn."""
    shape = (sealed["seeds"], len(sealed["tasks"]))
    first, last = (np.array(sealed[name], dtype=float).reshape(shape) for name in ("root", "incumbent"))
    rng = np.random.default_rng(0)
    draws = np.empty((_RESAMPLES, 2))
    for number in range(_RESAMPLES):
        tasks = rng.integers(0, shape[1], shape[1])
        seeds = rng.integers(0, shape[0], shape[0])
        draws[number] = first[np.ix_(seeds, tasks)].mean(), last[np.ix_(seeds, tasks)].mean()
    differences = draws[:, 1] - draws[:, 0]
    ratios = differences / np.maximum(draws[:, 0], 1e-9)
    low, high = np.quantile(differences, [0.025, 0.975])
    relative_low, relative_high = np.quantile(ratios, [0.025, 0.975])
    before, after = float(first.mean()), float(last.mean())
    return Gain(
        first=before, last=after, difference=after - before, low=float(low), high=float(high),
        relative=(after - before) / max(before, 1e-9),
        relative_low=float(relative_low), relative_high=float(relative_high),
    )  # fmt: skip


def summary(history: History) -> dict[str, Any]:
    """The figures of a run, JSON-ready. Rounds of each blind kind are told apart only here."""
    plan, decisions = history.plan, history.decisions
    kinds = {kind: [body for body in decisions if history.kind(body) == kind] for kind in (IDEA, PLACEBO, CONTROL)}
    placebo = [body for body in kinds[PLACEBO] if body["num_pairs"]]
    false = sum(body["standing"] == "accepted" for body in placebo)
    blocks = [body for _, body in history.journal.list("block")]
    fix = [body for _, body in history.journal.list("fix")]
    proposals = dict(history.journal.list("proposal"))
    canaries = board(history)
    refusals: dict[str, int] = {}
    for proposal in proposals.values():
        for reason, count in proposal["refusals"].items():
            refusals[reason] = refusals.get(reason, 0) + count
    found: dict[str, Any] = {
        "run": plan.run, "search": str(plan.search), "frozen_proposer": plan.frozen_proposer, "seed": plan.seed,
        "rounds": len(decisions), "planned_rounds": plan.rule.rounds, "suite": plan.suite_hash,
        "kept": [_kept(body) for body in decisions if body["kept"]],
        "screened": sum(body["why"].startswith("screened") for body in decisions),
        "gate_queries": sum(len(body["base"]) for body in blocks),
        "episodes": history.episodes, "max_episodes": plan.max_episodes, "sealed_episodes": history.sealed_episodes,
        "asks": sum(sum(body["asks"]) for body in blocks) + sum(body.get("asks", 0) for body in fix),
        "chars": sum(sum(body["chars"]) for body in blocks) + sum(body.get("chars", 0) for body in fix),
        "run_alpha": plan.rule.run_alpha, "alpha_left": history.budget.left, "effect_looked_for": plan.rule.effect,
        "placebo_rounds": len(kinds[PLACEBO]), "placebo_at_gate": len(placebo), "placebo_accepted": false,
        "placebo_rate_high95": float(special.betaincinv(false + 1, max(len(placebo) - false, 0.5), 0.95)),
        "control": [{"round": body["round"], "seen": body["standing"] == "accepted"} for body in kinds[CONTROL]],
        "canary_hits": total(canaries), "canary_hits_of": sums(canaries), "canaries_say": sentence(canaries),
        "canaries": [
            {**vars(row), "total": row.total, "coverage": row.coverage, "in_rounds": in_rounds(row)} for row in canaries
        ],
        "fork": history.journal.get("fork", "0"), "refusals": refusals,
        "repeats": _repeats(history), "root": history.root, "incumbent": history.incumbent,
    }  # fmt: skip
    sealed = history.journal.get("sealed", "0")
    found["sealed"] = None if sealed is None else _sealed(sealed)
    return found | _screen(history, found["screened"])


def passes_screen(num_episodes: int, screen: float, gain: float, discordant: float = _DISCORDANT) -> float:
    """The chance that a candidate with this gain on the fix tasks solves `screen` more of so many paired episodes.

    Exact, for pairs that are each won, lost or neither, of which the share `discordant` differs (at least the gain).
    """
    differing = max(discordant, abs(gain))
    pair = np.array([(differing - gain) / 2, 1.0 - differing, (differing + gain) / 2])
    chances = np.ones(1)
    for _ in range(num_episodes):
        chances = np.convolve(chances, pair)
    sums = np.arange(-num_episodes, num_episodes + 1)
    return min(1.0, float(chances[sums >= (screen - 1e-9) * num_episodes].sum()))


def _screen(history: History, screened: int) -> dict[str, Any]:
    """What comes before the gate, and how often it holds back what the gate looks for."""
    plan, first = history.plan, history.journal.get("fix", history.root)
    if first is None:
        return {"screen_passes": None, "screen_says": "no fix task has been run yet"}
    num_episodes = len(first["scores"])
    chance = passes_screen(num_episodes, plan.screen, plan.rule.effect)
    says = (
        f"{screened} rounds never reached the gate: of {num_episodes} fix episodes a candidate has to solve "
        f"{plan.screen:+.0%} more. One that gains {plan.rule.effect:.0%} there too passes with chance {chance:.2f}, if "
        "three in ten differ; any power named here is that of the gate alone"
    )
    return {"screen_passes": chance, "screen_says": says}


def _sealed(sealed: Body) -> dict[str, Any]:
    """Both ends, the share solved with each seed, the gain that would have been seen, and what all that says.

    `detectable` is None where both ends are one scaffold: its episodes ran once, and nothing is compared.
    """
    ends = gain(sealed)
    by_seed = {
        name: np.array(sealed[end], dtype=float).reshape(sealed["seeds"], -1).mean(axis=1).tolist()
        for name, end in (("first", "root"), ("last", "incumbent"))
    }
    first, last = sealed["commits"]
    detectable_gain = (1.96 + 1.28) * (ends.high - ends.low) / (2 * 1.96)  # of a two-sided test, power 0.9
    facts = {**vars(ends), "opened_by": sealed["opened_by"], "by_seed": by_seed}
    facts["detectable"] = None if first == last else detectable_gain
    return facts | {"says": _says(ends, facts["detectable"])}


def _says(ends: Gain, smallest: float | None) -> str:
    if smallest is None:
        return (
            f"{ends.first:.3f} solved; nothing was kept: both ends are the same scaffold, the sealed tasks compare "
            "nothing"
        )
    verdict = "a gain" if ends.low > 0 else "no gain can be told from chance: the null is the result"
    return (
        f"{ends.first:.3f} -> {ends.last:.3f} ({ends.difference:+.3f}, 95 % {ends.low:+.3f} to {ends.high:+.3f}; "
        f"relative {ends.relative:+.0%}, {ends.relative_low:+.0%} to {ends.relative_high:+.0%}): {verdict}; gains of "
        f"{smallest:.2f} and more would be seen with power 0.9"
    )


def _kept(body: Body) -> dict[str, Any]:
    names = ("round", "moves", "mean", "num_pairs", "wealth", "alpha", "detectable", "candidate")
    return {name: body[name] for name in names} | {"kind": body.get("kind", IDEA)}


def evidence_of(history: History, commit: str) -> str:
    """What is known for or against using a commit of the run: its round's decision, and the sealed tasks."""
    bodies = [body for body in history.decisions if body["candidate"] == commit]
    if bodies:
        decided = _decided(bodies[0])
    elif commit == history.root:
        decided = "it is the scaffold that the run began with: nothing was compared with it"
    else:
        decided = "its round is NOT decided yet"
    sealed = history.journal.get("sealed", "0")
    if sealed is None:
        return f"{decided}. Sealed tasks: not opened"
    which = "" if sealed["commits"][1] == commit else ", of ANOTHER scaffold than this one,"
    return f"{decided}. Sealed tasks{which} after the last round: {_sealed(sealed)['says']}"


def _decided(body: Body) -> str:
    kind = ", a placebo" if body.get("kind") == PLACEBO else ""
    hits = [f"canary {name} hit {count} times" for name, count in body["canaries"].items()]
    tested = "never tested in pairs"
    if body["num_pairs"]:
        tested = (
            f"{body['mean']:+.3f} over {body['num_pairs']} pairs, detectable: {body['detectable']:.2f} of the tasks "
            "and more"
        )
    verdict = "kept" if body["kept"] else "NOT kept"
    return "; ".join([f"round {body['round']}{kind}: {verdict}, {body['why']}", tested, *hits])


def first_kept(history: History, move: str) -> int | None:
    """The round in which a change with this move was kept first."""
    return next((body["round"] for body in history.decisions if body["kept"] and move in body["moves"]), None)


def _repeats(history: History) -> int:
    """Rounds that tested what had failed before on the same scaffold, by the likeness that also refuses repeats.

    So it is 0 as long as refusing works; a repeat that the likeness misses is not in it.
    """
    failed: list[tuple[list[str], str]] = []
    repeats = 0
    proposals = dict(history.journal.list("proposal"))
    for body in history.decisions:
        proposal = proposals[str(body["round"])]
        if history.kind(body) != IDEA or not proposal["commit"]:
            continue
        parts, tree = proposal["parts"], proposal["base_tree"]
        repeats += any(tree == base and likeness(parts, known) >= SAME for known, base in failed)
        if not body["kept"]:
            failed.append((parts, tree))
    return repeats


def markdown(history: History) -> str:
    """The report for people."""
    facts = summary(history)
    lines = [
        f"# Evolution run {facts['run']}",
        "",
        _spent_line(facts),
        "",
        *([] if facts["fork"] is None else [_fork_line(facts["fork"]), ""]),
        "## Kept",
        "",
        *(_kept_line(body) for body in facts["kept"]),
        *([] if facts["kept"] else ["Nothing was kept."]),
        "",
        "## How sure",
        "",
        *_how_sure(history, facts),
        "",
        *_canaries(history, facts["refusals"]),
        "## Sealed tasks",
        "",
        _sealed_line(facts["sealed"]),
        "",
        "## Rounds",
        "",
        "| round | commit | change | pairs | mean difference | detectable (power 0.9) | wealth | needed | decision |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_round_line(body) for body in history.decisions),
    ]
    return "\n".join(lines) + "\n"


def _how_sure(history: History, facts: dict[str, Any]) -> list[str]:
    return [
        f"- The chance of any false commit in it is at most {facts['run_alpha']:g} ({facts['alpha_left']:.4f} left).",
        f"- The test was laid out for gains of {facts['effect_looked_for']:.0%} of the tasks; smaller ones may have "
        "been given up: they were not looked for.",
        f"- Power 0.9: gains of {_first_detectable(history):.2f} of the tasks and more in the first round, if three in "
        f"ten pairs differ and all {history.plan.rule.max_pairs} are run.",
        f"- The screen: {facts['screen_says']}.",
        f"- Placebo rounds: {facts['placebo_at_gate']} of {facts['placebo_rounds']} reached the gate, "
        f"{facts['placebo_accepted']} were accepted (95 % bound {facts['placebo_rate_high95']:.2f}).",
        f"- Positive control: {_control(facts)}.",
        f"- Canary hits: {facts['canary_hits']} ({facts['canaries_say']}).",
        f"- Repeats of failed ideas: {facts['repeats']}, by the likeness that refuses them: none by construction. How "
        "often it misses a repeat is not measured by a run.",
    ]


def _canaries(history: History, refusals: dict[str, int]) -> list[str]:
    """The board, and what was refused before it ran."""
    refused = [f"- {count} x {why}" for why, count in sorted(refusals.items())]
    said = ["Refused before they ran:", "", *refused] if refused else ["No proposal was refused."]
    return ["## Canaries", "", *lines_of(board(history)), "", *said, ""]


def _spent_line(facts: dict[str, Any]) -> str:
    return (
        f"{facts['rounds']} of {facts['planned_rounds']} rounds, search {facts['search']}, {facts['screened']} "
        f"screened out on the fix tasks, {facts['gate_queries']} paired gate queries, {facts['episodes']} of "
        f"{facts['max_episodes']} episodes and {facts['sealed_episodes']} on the sealed tasks, {facts['asks']} asks."
    )


def _fork_line(fork: Body) -> str:
    seal = f"opened there by {fork['sealed_by']}" if fork["sealed_by"] else "not opened there when this run began"
    return (
        f"A fork of {fork['source']} at round {fork['round']}. The gate answered {fork['pairs']} pairs up to there "
        f"and {fork['pairs_after']} more in rounds that this run does not have but whoever forked it may have seen. "
        f"Each branch has the whole error budget: for all together the chance is at most the sum. The seal was {seal}."
    )


def _kept_line(body: dict[str, Any]) -> str:
    kind = " (placebo)" if body["kind"] == PLACEBO else ""
    return (
        f"- Round {body['round']}{kind}: {'; '.join(body['moves'])}: {body['mean']:+.3f} over {body['num_pairs']} "
        f"pairs, wealth {body['wealth']:.0f} of {1 / body['alpha']:.0f} needed; "
        f"detectable: {body['detectable']:.2f} and more"
    )


def _first_detectable(history: History) -> float:
    rule = history.plan.rule
    return detectable(rule.max_pairs, rule.run_alpha / rule.rounds, _DISCORDANT)


def _control(facts: dict[str, Any]) -> str:
    seen = [each["seen"] for each in facts["control"]]
    return f"seen in {sum(seen)} of {len(seen)} rounds" if seen else "none was planned or reached"


def _sealed_line(sealed: dict[str, Any] | None) -> str:
    if sealed is None:
        return "Not opened."
    return f"{sealed['says']}. Opened by {sealed['opened_by']}."


def _round_line(body: Body) -> str:
    decision = "**kept**" if body["kept"] else body["why"]
    return (
        f"| {body['round']} | {body['candidate'][:10]} | {'; '.join(body['moves'])} | {body['num_pairs']} | "
        f"{body['mean']:+.3f} | {body['detectable']:.2f} | {body['wealth']:.2f} | {1 / body['alpha']:.0f} | "
        f"{decision} |"
    )
