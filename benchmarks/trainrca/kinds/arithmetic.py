"""Faults of the numpy training in its optimiser, its numerics and its network."""

from __future__ import annotations

from benchmarks.trainrca.editing import Apply, Config, Data, Repo
from benchmarks.trainrca.kinds import CODE, CONFIG, Cause, Kind


def edit(subject: str, file: str, before: str, after: str, *, delay_steps: int = 0) -> Apply:
    """One commit with one edit of code."""

    def apply(config: Config, repo: Repo, data: Data) -> Cause:
        fault = repo.commit(subject, [(file, before, after)])
        return Cause(targets=(fault,), cause_kind=CODE, delay_steps=delay_steps)

    return apply


def setting(subject: str, before: str, after: str) -> Apply:
    """One commit that changes the config file."""

    def apply(config: Config, repo: Repo, data: Data) -> Cause:
        return Cause(targets=(config.set(before, after, subject),), cause_kind=CONFIG)

    return apply


def given(key: str, value: float) -> Apply:
    """A field given when the run is resumed, in no commit."""

    def apply(config: Config, repo: Repo, data: Data) -> Cause:
        return Cause(targets=(config.launch(key, value),), cause_kind=CONFIG)

    return apply


def kind(family: str, name: str, apply: Apply) -> Kind:
    """Of the numpy training."""
    return Kind(name=name, family=family, trainer="clusters", apply=apply)


_HALF = "    half = (x.astype(np.float16) * np.float16(4e4)).astype(np.float64) / 4e4\n    return np.tanh(half)\n"

KINDS = [
    kind("optimisation", "rate_times_hundred", setting("config: learn faster", '"lr": 0.01', '"lr": 1.0')),
    kind("optimisation", "rate_at_resume", given("optim.lr", 0.6)),
    kind(
        "optimisation",
        "decay_times_hundred",
        setting("config: tidy weights", '"weight_decay": 0.02', '"weight_decay": 8.0'),
    ),
    kind("optimisation", "clip_to_nothing", setting("config: safe steps", '"clip_norm": 5.0', '"clip_norm": 1e-9')),
    kind("optimisation", "no_second_moment", setting("config: react", '"beta2": 0.99', '"beta2": 0.0')),
    kind(
        "optimisation",
        "sum_for_mean",
        edit("train: plainer sum", "train.py", "[t + g / count for t, g", "[t + g for t, g"),
    ),
    kind(
        "optimisation",
        "sign_of_decay",
        edit("optimizer: one line", "optimizer.py", "keep = 1.0 - ", "keep = 1.0 + 9 * "),
    ),
    kind(
        "numerics", "half_precision", edit("network: smaller numbers", "network.py", "    return np.tanh(x)\n", _HALF)
    ),
    kind("numerics", "large_eps", setting("config: guard the root", '"eps": 1e-8', '"eps": 3.0')),
    kind(
        "numerics",
        "root_forgotten",
        edit("optimizer: cheaper", "optimizer.py", "(np.sqrt(v) + optim", "(v + optim"),
    ),
    kind(
        "numerics",
        "overflow_late",
        edit(
            "network: powers without the shift",
            "network.py",
            "    powers = np.exp(shifted)\n",
            "    powers = np.exp(np.float16(8.0) * logits.astype(np.float16))\n",
        ),
    ),
    kind(
        "numerics",
        "coarse_gradients",
        edit(
            "train: short numbers",
            "train.py",
            "        found = gradients_of(weights, some, hidden, classes)\n",
            "        found = [np.round(g, 1) for g in gradients_of(weights, some, hidden, classes)]\n",
        ),
    ),
    kind(
        "model code",
        "steeper_activation",
        edit("network: crisper", "network.py", "    return np.tanh(x)\n", "    return np.tanh(4.0 * x)\n"),
    ),
    kind(
        "model code",
        "layer_left_out",
        edit("network: shorter path", "network.py", "    logits = two @ w3\n", "    logits = one @ w3\n"),
    ),
    kind(
        "model code",
        "frozen_layer",
        edit(
            "network: less to compute",
            "network.py",
            "    d_one = (d_two @ weights[2].T) * slope(one)\n",
            "    d_one = np.zeros_like(one)\n",
        ),
    ),
    kind(
        "model code",
        "slope_off_by_one",
        edit("network: cheaper slope", "network.py", "    return 1.0 - active**2\n", "    return active**2 - 1.0\n"),
    ),
    kind(
        "model code",
        "bias_dropped",
        edit(
            "network: fewer terms",
            "network.py",
            "    two = activation(one @ w2 + b2)\n",
            "    two = activation(one @ w2 - 3.0)\n",
        ),
    ),
]
