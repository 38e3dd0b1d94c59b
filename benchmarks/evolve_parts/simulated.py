"""Whole runs of the acceptance rule on simulated pairs: false commits, power, price.

Solve probabilities of tasks are Beta(1.2, 1.2), as in published pass rates of coding suites; a useless candidate keeps
them, and both arms are independent given the task, so that as many pairs as possible differ without cause. The tests
and the budget are those of `loops.evolve.acceptance`, on arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from loops.evolve.acceptance import Rule, doubt_path, endings, wealth_path
from loops.evolve.plan import Plan
from loops.evolve.report import passes_screen

Floats = NDArray[np.float64]
TASKS, SEEDS = 60, 4
_BETA = 1.2
DISCORDANT = 0.3  # share of pairs that differ, for the questions of power


@dataclass(frozen=True, kw_only=True)
class Endings:
    """One round of many runs: whether it committed, how many pairs it took, and its last wealth."""

    accepted: NDArray[np.bool_]
    pairs: NDArray[np.int64]
    wealth: Floats


def three_way(rng: np.random.Generator, win: Floats, loss: Floats, num_pairs: int) -> Floats:
    """Differences of pairs, (runs, num_pairs): +1 with chance `win`, -1 with chance `loss`."""
    uniform = rng.random((win.size, num_pairs))
    return np.where(uniform < win[:, None], 1.0, np.where(uniform > 1.0 - loss[:, None], -1.0, 0.0))


def ended(differences: Floats, alpha: Floats, rule: Rule) -> Endings:
    wealth = wealth_path(differences)
    accepted, futile = endings(wealth, doubt_path(differences, rule), alpha[:, None], rule)
    over = accepted | futile
    over[:, -1] = True
    end = over.argmax(axis=1)
    rows = np.arange(len(end))
    return Endings(accepted=accepted[rows, end], pairs=end + 1, wealth=wealth[rows, end])


def null_chances(rng: np.random.Generator, num_runs: int) -> Floats:
    """The chance that a pair is won (and as large that it is lost) in each run: mean p (1 - p) over its tasks."""
    solve = rng.beta(_BETA, _BETA, (num_runs, TASKS))
    chances: Floats = (solve * (1.0 - solve)).mean(axis=1)
    return chances


def null_runs(rng: np.random.Generator, rule: Rule, num_runs: int) -> dict[str, float]:
    """Runs in which nothing helps, with the greedy rule beside it (keep what measures higher on as many pairs)."""
    left = np.full(num_runs, rule.run_alpha)
    commits, greedy, pairs = np.zeros(num_runs), np.zeros(num_runs), np.zeros(num_runs)
    chance = null_chances(rng, num_runs)
    for number in range(rule.rounds):
        differences = three_way(rng, chance, chance, rule.max_pairs)
        alpha = left / (rule.rounds - number)
        this = ended(differences, alpha, rule)
        left -= alpha * (1.0 - np.where(this.accepted, 0.0, np.minimum(1.0, this.wealth)))
        commits += this.accepted
        pairs += this.pairs
        greedy += differences.mean(axis=1) > 0.0
    worst = float((commits > 0).sum())
    return {
        "runs": num_runs,
        "false_commit_rate": worst / num_runs,
        "false_commit_rate_high95": float(special.betaincinv(worst + 1.0, max(num_runs - worst, 0.5), 0.95)),
        "greedy_false_commit_rate": float((greedy > 0).mean()),
        "greedy_false_commits_per_run": float(greedy.mean()),
        "pairs_per_null_round": float(pairs.mean() / rule.rounds),
        "alpha_left": float(left.mean()),
    }


def power(rng: np.random.Generator, rule: Rule, num_runs: int, effect: float, discordant: float) -> dict[str, float]:
    """How often a candidate with this gain is kept in a random round of a run that found nothing so far."""
    when = rng.integers(0, rule.rounds, num_runs)
    left = np.full(num_runs, rule.run_alpha)
    chance = null_chances(rng, num_runs)
    accepted, pairs = np.zeros(num_runs, dtype=bool), np.zeros(num_runs)
    for number in range(rule.rounds):
        alpha = left / (rule.rounds - number)
        now = when == number
        win = np.full(int(now.sum()), (discordant + effect) / 2.0)
        this = ended(three_way(rng, win, win - effect, rule.max_pairs), alpha[now], rule)
        accepted[now], pairs[now] = this.accepted, this.pairs
        other = ended(three_way(rng, chance, chance, rule.max_pairs), alpha, rule)
        left -= alpha * (1.0 - np.where(other.accepted, 0.0, np.minimum(1.0, other.wealth)))
    return {"power": float(accepted.mean()), "pairs": float(pairs.mean())}


def pairs_needed(rng: np.random.Generator, rule: Rule, effect: float, share: float, num_runs: int) -> int:
    """After how many pairs `share` of the candidates with this gain are accepted in a run's first round."""
    win = np.full(num_runs, (DISCORDANT + effect) / 2.0)
    this = ended(
        three_way(rng, win, win - effect, rule.max_pairs), np.full(num_runs, rule.run_alpha / rule.rounds), rule
    )
    taken = np.where(this.accepted, this.pairs, np.inf)
    return int(np.quantile(taken, share)) if np.quantile(taken, share) < np.inf else -1


def fixed_size(alpha: float, effect: float, discordant: float, target: float) -> int:
    """Pairs an exact one-sided sign test needs for this power at a level that is spent in equal shares.

    Conditional on d discordant pairs it rejects when wins exceed the binomial quantile (McNemar 1947).
    """
    share = (discordant + effect) / (2.0 * discordant)
    for num_pairs in range(10, 5000, 2):
        count = np.arange(num_pairs + 1)
        critical = stats.binom.isf(alpha, count, 0.5)  # reject when wins are more than this
        reach = stats.binom.sf(critical, count, share)
        if float((stats.binom.pmf(count, num_pairs, discordant) * reach).sum()) >= target:
            return num_pairs
    return -1


def simulated(num_runs: int, seed: int) -> dict[str, object]:
    """The figures of the rule at 60 tasks x 4 seeds over 100 rounds."""
    rng = np.random.default_rng(seed)
    rule = Rule(max_pairs=TASKS * SEEDS)
    null = null_runs(rng, rule, num_runs)
    twenty = power(rng, rule, num_runs, 0.2, DISCORDANT)
    fixed = fixed_size(rule.run_alpha / rule.rounds, 0.2, DISCORDANT, 0.95)
    spent = 0.9 * null["pairs_per_null_round"] + 0.1 * twenty["pairs"]
    ten = Rule(effect=0.1, max_pairs=3000)
    return {
        **null,
        "power_20pt": twenty["power"],
        "power_is_of": "the gate alone; a real run screens its candidates on the fix tasks before it",
        "screen_passes_20pt_of_40_fix_episodes": passes_screen(40, Plan.screen, 0.2, DISCORDANT),
        "power_20pt_if_half_the_pairs_differ": power(rng, rule, num_runs, 0.2, 0.5)["power"],
        "pairs_per_20pt_round": twenty["pairs"],
        "pairs_for_10pt_power90": pairs_needed(rng, ten, 0.1, 0.9, num_runs),
        "pairs_for_20pt_power95": pairs_needed(rng, rule, 0.2, 0.95, num_runs),
        "fixed_size_pairs": fixed,
        "evals_saved": 1.0 - spent / fixed,
        "evals_saved_assumes": "nine useless candidates for one of +20 points; the fixed-size test has power 0.95",
    }
