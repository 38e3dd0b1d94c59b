"""Faults of the mixture-of-experts training, on the demo's project: its own, and others on lines of theirs."""

from __future__ import annotations

from benchmarks.trainrca.editing import Apply, Config, Data, Repo
from benchmarks.trainrca.kinds import CODE, CONFIG, DATA, Cause, Kind
from contracts.enums import CauseKind
from contracts.events import Scalar
from control_plane.demo.faults import find_fault


def planted(name: str) -> Apply:
    """A fault of the demo."""

    def apply(config: Config, repo: Repo, data: Data) -> Cause:
        fault = find_fault(name)
        if name == "loader_order":
            config.launched["parallel.dp_size"] = 2
        return Cause(targets=tuple(repo.change(each) for each in fault.changes(1)), cause_kind=fault.cause_kind)

    return apply


def edit(subject: str, cause_kind: CauseKind, *edits: tuple[str, str, str]) -> Apply:
    """One commit."""

    def apply(config: Config, repo: Repo, data: Data) -> Cause:
        return Cause(targets=(repo.commit(subject, edits),), cause_kind=cause_kind)

    return apply


def given(key: str, value: Scalar, cause_kind: CauseKind) -> Apply:
    """A field given when the run is resumed, in no commit."""

    def apply(config: Config, repo: Repo, data: Data) -> Cause:
        return Cause(targets=(config.launch(key, value),), cause_kind=cause_kind)

    return apply


def kind(family: str, name: str, apply: Apply) -> Kind:
    """Of the mixture-of-experts training."""
    return Kind(name=name, family=family, trainer="moe", apply=apply)


_SEED = "        seed=1,\n        steps=240,\n"
_START = "    start = step * config.batch_size\n"
_TYPES = "    ZLossConfig,\n)\n"

KINDS = [
    kind("model code", "over_balance", planted("over_balance")),
    kind("model code", "layer_skip", planted("layer_skip")),
    kind("optimisation", "router_muon", planted("router_muon")),
    kind("data", "leftover_pages", planted("leftover_pages")),
    kind("optimisation", "norm_decay", planted("norm_decay")),
    kind("loop", "loader_order", planted("loader_order")),
    kind(
        "optimisation",
        "experts_rate",
        edit(
            "recipe: experts learn faster",
            CONFIG,
            (
                "recipe.py",
                '        experts=GroupConfig(\n            optimizer="muon",\n            lr=3e-3,\n',
                '        experts=GroupConfig(\n            optimizer="muon",\n            lr=1e-1,\n',
            ),
        ),
    ),
    kind("optimisation", "clip_tiny", given("clip.max_norm", 1e-4, CONFIG)),
    kind(
        "loop",
        "schedule_restarts",
        edit(
            "schedule: a cycle",
            CODE,
            (
                "schedule.py",
                "    past = step - schedule.warmup_steps\n",
                "    past = (step - schedule.warmup_steps) % 110 * 9\n",
            ),
        ),
    ),
    kind(
        "model code",
        "residual_scale",
        edit(
            "recipe: a stronger residual stream",
            CONFIG,
            ("recipe.py", _TYPES, "    ModelConfig,\n    ZLossConfig,\n)\n"),
            ("recipe.py", _SEED, _SEED + "        model=ModelConfig(residual_scale=4.0),\n"),
        ),
    ),
    kind("numerics", "router_temperature", given("moe.router_temperature", 12.0, CONFIG)),
    kind(
        "numerics",
        "z_loss_heavy",
        edit("recipe: keep logits small", CONFIG, ("recipe.py", "        coef=1e-3,\n", "        coef=3.0,\n")),
    ),
    kind(
        "data",
        "samples_twice",
        edit("loader: keep samples warm", CODE, ("loader.py", _START, "    start = step // 8 * config.batch_size\n")),
    ),
    kind("data", "mixture_at_resume", given("data.mixture.encodings", 3.0, DATA)),
    kind(
        "infrastructure",
        "slow_loader",
        edit(
            "loader: wait until the shard is there",
            CODE,
            ("loader.py", "import numpy as np\nfrom", "import time\n\nimport numpy as np\nfrom"),
            ("loader.py", _START, _START + "    time.sleep(0.04)\n"),
        ),
    ),
]
