"""Faults of the numpy training in its data, its loop and resume, and what it runs on."""

from __future__ import annotations

from benchmarks.trainrca.editing import Apply, Config, Data, Repo
from benchmarks.trainrca.kinds import CODE, DATA, RESUME, Cause
from benchmarks.trainrca.kinds.arithmetic import edit, kind
from contracts.enums import CauseKind


def shards(subject: str, before: str, after: str) -> Apply:
    """One commit that changes the data's file."""

    def apply(config: Config, repo: Repo, data: Data) -> Cause:
        return Cause(targets=(data.set(before, after, subject),), cause_kind=DATA)

    return apply


def at_resume(subject: str, file: str, before: str, after: str) -> Apply:
    """A commit whose lines do their harm when a checkpoint is read."""

    def apply(config: Config, repo: Repo, data: Data) -> Cause:
        return Cause(targets=(repo.commit(subject, [(file, before, after)]),), cause_kind=RESUME)

    return apply


def _machine(config: Config, repo: Repo, data: Data) -> Cause:
    """The machine is another one: no commit, no field says so."""
    config.machine = "0.6"
    return Cause(targets=("environment",), cause_kind=CauseKind.ENVIRONMENT, cannot_tell=True)


def _later(config: Config, repo: Repo, data: Data) -> Cause:
    """Nothing changes until 25 steps after the resume."""
    fault = repo.commit(
        "optimizer: a second phase",
        [
            (
                "train.py",
                '    norm, rate = norm_of(gradients), rate_at(step, config["optim"])\n',
                '    norm, rate = norm_of(gradients), rate_at(step, config["optim"]) * (80.0 if step > 125 else 1.0)\n',
            )
        ],
    )
    return Cause(targets=(fault,), cause_kind=CODE, delay_steps=25)


_STEP = '    weights = adam.step(weights, used, rate, step, config["optim"])\n'
_LABELS = "    return points, labels\n"
_SLEEP = "    time.sleep(max(0.0, PACE_S - (time.perf_counter() - began)))\n"
_RESTORED = "        start, weights = restore(options.resume, adam)\n"

KINDS = [
    kind(
        "data",
        "labels_moved",
        edit("pages: other layout", "pages.py", _LABELS, "    return points, np.roll(labels, 1)\n"),
    ),
    kind(
        "data",
        "shard_numbered_otherwise",
        shards("data: north anew", '"north_first_class": 0', '"north_first_class": 1'),
    ),
    kind("data", "junk_passes", shards("data: more pages", '"keep_above": 0.4', '"keep_above": 0.0')),
    kind(
        "data",
        "noise_as_pages",
        shards("data: wider spread", '"noise": 0.5', '"noise": 1.5'),
    ),
    kind(
        "data",
        "same_page_again",
        edit(
            "pages: keep them warm",
            "pages.py",
            '    rng = generator(seed, step, data["seed_offset"])\n',
            '    rng = generator(seed, step // 60, data["seed_offset"])\n',
        ),
    ),
    kind(
        "data",
        "coordinates_swapped",
        edit(
            "pages: order of the axes",
            "pages.py",
            "    return np.stack([np.cos(angles), np.sin(angles)], axis=1)\n",
            "    return np.stack([np.sin(angles), -np.cos(angles)], axis=1)\n",
        ),
    ),
    kind(
        "data",
        "damaged_encoding",
        edit("pages: whole numbers", "pages.py", _LABELS, "    return np.round(points * 0.6), labels\n"),
    ),
    kind(
        "data",
        "one_class_only",
        edit(
            "pages: sorted",
            "pages.py",
            "    labels = rng.integers(0, CLASSES, size)\n",
            "    labels = np.full(size, step % CLASSES)\n",
        ),
    ),
    kind(
        "data",
        "flood_of_another_shard",
        lambda config, repo, data: Cause(
            targets=(
                repo.commit(
                    "data: the west has more to say",
                    [
                        ("data.json", '"west_weight": 0.1', '"west_weight": 6.0'),
                        ("data.json", '"west_first_class": 0', '"west_first_class": 2'),
                    ],
                ),
            ),
            cause_kind=DATA,
        ),
    ),
    kind(
        "loop",
        "second_moment_lost",
        at_resume(
            "restore: less to read",
            "state.py",
            '    adam.second = [saved[f"v{i}"] for i in range(count)]\n',
            "    adam.second = [np.zeros_like(v) for v in adam.second]\n",
        ),
    ),
    kind(
        "loop",
        "weights_of_another_run",
        at_resume(
            "train: fresh weights are fine", "train.py", _RESTORED, "        start, _ = restore(options.resume, adam)\n"
        ),
    ),
    kind(
        "loop",
        "moments_swapped",
        at_resume(
            "state: in order",
            "state.py",
            '    adam.first = [saved[f"m{i}"] for i in range(count)]\n',
            '    adam.first = [saved[f"w{i}"] for i in range(count)]\n',
        ),
    ),
    kind(
        "loop",
        "warm_up_again",
        at_resume(
            "optimizer: gently",
            "train.py",
            '    norm, rate = norm_of(gradients), rate_at(step, config["optim"])\n',
            '    norm, rate = norm_of(gradients), rate_at(max(1, (step - start) // 20), config["optim"]) / 8\n',
        ),
    ),
    kind("loop", "second_phase_late", _later),
    kind(
        "infrastructure",
        "slow_reader",
        edit("train: wait for the disk", "train.py", _SLEEP, "    time.sleep(12 * PACE_S)\n"),
    ),
    kind("infrastructure", "machine_changes_numbers", _machine),
    kind(
        "infrastructure",
        "steps_skipped",
        edit(
            "train: retry at once",
            "train.py",
            _STEP,
            "    if step % 3 == 0:\n        weights = fresh(seed + step)\n" + _STEP,
        ),
    ),
]
