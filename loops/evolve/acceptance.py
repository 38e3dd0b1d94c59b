"""Whether a candidate beats the incumbent: a sequential paired test, and the error budget of a whole run.

Pairs. One pair is one task drawn uniformly and independently from the gate split, with one fresh seed, run by both;
D = score(candidate) - score(incumbent), in [-1, 1]. Drawn so, E[D | past] is the candidate's true gain whatever was
looked at before, also when the tasks are few and the candidate was chosen by their help.

Accepting. Under "no gain" (E[D | past] <= 0) the wealth K_n = mean_j prod_i (1 + b_j D_i), with fixed bets b_j < 1,
is a non-negative supermartingale that starts at 1, so P(some n: K_n >= 1/alpha) <= alpha (Ville 1939; betting:
Waudby-Smith & Ramdas, JRSS-B 2024, section 4; averaging over bets keeps the property). One may look after every pair.

Giving up. Against "a gain of at least `effect`" (E[D | past] >= effect) the wealth with factors 1 + c_j (effect - D_i),
c_j < 1 / (1 - effect), is such a supermartingale too: once it reaches 1/`miss`, a gain of that size is refuted; a
candidate that has it is given up so with probability at most `miss`. What is smaller may be missed: the report says so.

The run. Round k gets alpha_k out of what is left of `run_alpha`. A round that ends without a commit pays back
alpha_k * min(1, K_n). By optional stopping P(commit | past) / alpha_k + E[K_n; no commit | past] <= 1 for a candidate
without gain, so its chance of a false commit is at most what it does not pay back in expectation; no round pays back
more than it took, so the expected number of false commits of a run, and with it the chance of any, is at most
`run_alpha`, whatever the other candidates are. (In the spirit of alpha investing: Foster & Stine, JRSS-B 2008.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from contracts.errors import UserInputError

Floats = NDArray[np.float64]
_BETS = (0.2, 0.4, 0.55, 0.7)
_DOUBTS = (0.3, 0.55, 0.8)  # times the largest bet that is possible against a gain of `effect`


class Standing(StrEnum):
    """What a sequential test says after the pairs so far."""

    GOES_ON = "goes_on"
    ACCEPTED = "accepted"
    FUTILE = "futile"  # a gain of the size looked for is refuted, or out of reach
    EXHAUSTED = "exhausted"  # no pairs are left: nothing was shown


@dataclass(frozen=True, kw_only=True)
class Rule:
    """`effect`: the gain the test is laid out for (share of tasks); `miss`: how often such a gain may be given up.

    `max_pairs` a round. Raises UserInputError for shares outside (0, 1).
    """

    run_alpha: float = 0.05
    rounds: int = 100
    effect: float = 0.2
    miss: float = 0.01
    max_pairs: int = 240

    def __post_init__(self) -> None:
        for name in ("run_alpha", "effect", "miss"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise UserInputError(f"{name} cannot be {getattr(self, name)}", remedy="give a share between 0 and 1")
        if self.rounds < 1 or self.max_pairs < 1:
            raise UserInputError("a run needs rounds and pairs", remedy="give at least one of each")

    @property
    def doubts(self) -> Floats:
        """The bets against a gain of `effect`."""
        return np.array(_DOUBTS) / (1.0 - self.effect)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A test as it stands: `wealth` for a gain, `doubt` against one of `effect`, both e-values."""

    standing: Standing
    num_pairs: int
    mean: float
    wealth: float
    doubt: float


def wealth_path(differences: Floats) -> Floats:
    """K_1 ... K_n along the last axis; any leading axes."""
    return _mixture(differences, np.array(_BETS))


def doubt_path(differences: Floats, rule: Rule) -> Floats:
    """The e-values against a gain of `rule.effect`, as `wealth_path`."""
    return _mixture(rule.effect - differences, rule.doubts)


def _mixture(gains: Floats, bets: Floats) -> Floats:
    total = np.zeros(gains.shape)
    for bet in bets:
        total += np.exp(np.cumsum(np.log1p(bet * gains), axis=-1))
    return total / len(bets)


def read(differences: Iterable[float], alpha: float, rule: Rule) -> Reading:
    """Where the test stands; the first pair at which it ended counts, later ones are ignored.

    Raises UserInputError for a difference outside [-1, 1] or not a number: such a score must not come here.
    """
    seen = np.array(list(differences), dtype=np.float64)
    if seen.size and not bool(np.all(np.abs(seen) <= 1.0)):
        raise UserInputError("a difference of scores lies outside [-1, 1]", remedy="scores must lie between 0 and 1")
    if not seen.size:
        return Reading(standing=Standing.GOES_ON, num_pairs=0, mean=0.0, wealth=1.0, doubt=1.0)
    wealth, doubt = wealth_path(seen), doubt_path(seen, rule)
    accepted, futile = endings(wealth, doubt, alpha, rule)
    end = int(np.argmax(accepted | futile)) if bool(np.any(accepted | futile)) else seen.size - 1
    if accepted[end]:
        standing = Standing.ACCEPTED
    elif futile[end]:
        standing = Standing.FUTILE
    else:
        standing = Standing.EXHAUSTED if seen.size >= rule.max_pairs else Standing.GOES_ON
    return Reading(
        standing=standing,
        num_pairs=end + 1,
        mean=float(seen[: end + 1].mean()),
        wealth=float(wealth[end]),
        doubt=float(doubt[end]),
    )


def endings(wealth: Floats, doubt: Floats, alpha: Floats | float, rule: Rule) -> tuple[NDArray[np.bool_], ...]:
    """Whether each pair ends the test by acceptance, or by futility (refuted, or every pair left could not do it)."""
    left = rule.max_pairs - 1 - np.arange(wealth.shape[-1])
    best = wealth * (1.0 + max(_BETS)) ** np.minimum(left, 1000)  # no bet grows faster on wins only
    accepted = wealth >= 1.0 / np.asarray(alpha)
    return accepted, ~accepted & ((doubt >= 1.0 / rule.miss) | ((best < 1.0 / np.asarray(alpha)) & (left > 0)))


@dataclass(frozen=True, kw_only=True)
class ErrorBudget:
    """What is left of `run_alpha` before a round. Values only: the journal of a run rebuilds it."""

    left: float
    rounds_left: int

    @classmethod
    def of(cls, rule: Rule) -> ErrorBudget:
        return cls(left=rule.run_alpha, rounds_left=rule.rounds)

    @property
    def share(self) -> float:
        """alpha_k: an equal share for every round that is left."""
        return self.left / max(1, self.rounds_left)

    def settled(self, reading: Reading, share: float | None = None) -> ErrorBudget:
        """After a round that was tested at `share` (its own by default); a commit keeps its whole share."""
        back = 0.0 if reading.standing == Standing.ACCEPTED else min(1.0, reading.wealth)
        taken = (self.share if share is None else share) * (1.0 - back)
        return ErrorBudget(left=self.left - taken, rounds_left=self.rounds_left - 1)


def growth(effect: float, discordant: float) -> tuple[float, float]:
    """Mean and variance of log wealth a pair at the best single bet, for pairs of which `discordant` differ.

    The best bet on wins and losses of chances p and q is (p - q) / (p + q) (Kelly 1956); capped at our largest.
    """
    discordant = max(discordant, effect)
    win, loss = (discordant + effect) / 2.0, (discordant - effect) / 2.0
    bet = min(effect / discordant, max(_BETS))
    up, down = math.log1p(bet), math.log1p(-bet)
    mean = win * up + loss * down
    return mean, win * up * up + loss * down * down - mean * mean


def detectable(num_pairs: int, alpha: float, discordant: float, *, power_z: float = 1.2816) -> float:
    """The smallest gain that `num_pairs` show with the power of `power_z` (0.9), by the normal law of log wealth.

    1.0 when none is. To be printed with every claim: smaller gains may be there and were not looked for.
    """
    need = math.log(1.0 / alpha) + math.log(len(_BETS)) / 2.0  # on average half a mixture's price is lost
    for effect in np.linspace(0.01, 0.99, 99):
        mean, variance = growth(float(effect), discordant)
        if num_pairs * mean - power_z * math.sqrt(num_pairs * variance) >= need:
            return float(effect)
    return 1.0
