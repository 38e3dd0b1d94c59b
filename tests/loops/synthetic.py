"""A training in numpy: what a run of the small model logs, as a function of the values its code sets.

Values are deterministic in (seed, step, code), so an equal re-run is bitwise equal; any change of the code also stirs
a little noise, as it does in a real training. A fault acts from the first step of the segment that runs it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from contracts.events import Scalar
from loops.debug.view import RunView, SegmentView, make_view

LAYERS = 8
CUTS = (60, 110, 170)  # last steps of the three segments


@dataclass(frozen=True, kw_only=True)
class Code:
    """What the code of a segment sets; the defaults are healthy."""

    penalty_scale: float = 1.0
    aux_router_warmup: int = 0  # has no effect on anything
    skipped_layers: tuple[int, ...] = ()
    router_group: str = "router"
    router_lr: float = 1e-3
    bias_lr: float = 1e-3
    attention_lr: float = 3e-3
    norm_decay: float = 0.0
    num_devices: int = 0  # 0: as many as there are
    mixture: float = 0.4
    loss_offset: float = 0.0
    shown_offset: float = 0.0  # of the logged loss only: the training is the same
    text: str = ""  # whatever else the code says; it changes no behaviour
    speed: float = field(default=1.0, repr=False)  # of the machine; what is learned stays the same
    scatter: int = 0  # of the machine: another value gives another run of the same code

    def digest(self) -> int:
        return int.from_bytes(
            hashlib.sha256(repr(replace(self, text="", shown_offset=0.0)).encode()).digest()[:6], "big"
        )

    def router_rate(self) -> float:
        return self.bias_lr if self.router_group == "bias" else self.router_lr


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Steps start + 1 .. end under one code, with `dp_size` ranks."""

    start: int
    end: int
    code: Code
    dp_size: int = 4


def measure(seed: int, stretch: Stretch) -> dict[str, np.ndarray]:
    """Every series of one stretch, one value a step."""
    steps = np.arange(stretch.start + 1, stretch.end + 1)
    age = (steps - stretch.start).astype(float)
    noise = _Noise(seed, steps, stretch.code)
    code = stretch.code
    growth = np.maximum(0.0, code.router_rate() - 5e-3) / 5e-2  # how fast the router runs away
    values: dict[str, np.ndarray] = {}
    decay = np.exp(-steps / 40.0)
    excess = []
    for layer in range(LAYERS):
        skipped = float(layer in code.skipped_layers) * np.minimum(age / 25.0, 1.0)
        balance = 0.6 + 0.6 * decay + 0.05 * np.sin(layer + steps / 23.0)
        vio = balance * code.penalty_scale**-0.25 * (1 + 1.6 * skipped) * (1 + 0.3 * growth * np.minimum(age / 15, 1))
        values[f"max_vio/layers.{layer}"] = vio * np.exp(0.2 * noise(f"vio{layer}"))
        over = 0.025 * (vio / 0.65) ** 1.5 * np.exp(0.35 * noise(f"bal{layer}"))
        over = over * (1 + 3.0 * skipped + 5.0 * growth * np.minimum(age / 15, 1))
        values[f"balance_loss/layers.{layer}"] = (1.0 + over) * code.penalty_scale
        excess.append(over)
        logits = (0.3 + 0.0005 * steps + 0.02 * layer) * np.exp(growth * np.minimum(age, 60) / 25.0)
        values[f"router_logit_std/layers.{layer}"] = logits * np.exp(0.03 * noise(f"std{layer}"))
        values[f"router_entropy/layers.{layer}"] = (2.05 - 0.05 * logits) * np.exp(0.002 * noise(f"ent{layer}"))
        drift = 0.004 * np.sin(layer + steps / 60.0)
        values[f"weight_norm/layers.{layer}.norm"] = 12.65 * np.exp(drift - 3e-3 * code.norm_decay * age)
        router = 1.1 + 0.001 * steps + 0.02 * np.sin(layer + steps / 50.0)
        values[f"weight_norm/layers.{layer}.router"] = router * np.exp(growth * np.minimum(age, 60) / 30.0)
    values["max_vio"] = np.mean([values[f"max_vio/layers.{i}"] for i in range(LAYERS)], axis=0)
    values["balance_loss"] = np.mean([values[f"balance_loss/layers.{i}"] for i in range(LAYERS)], axis=0)
    values["aux_loss_share"] = 0.035 * code.penalty_scale**0.9 * np.exp(0.05 * noise("aux"))
    curve = 2.2 + 3.2 * np.exp(-steps / 30.0) + code.loss_offset - 0.1 * (code.mixture - 0.4)
    values["lm_loss"] = curve * np.exp(0.035 * noise("lm"))
    values["lm_loss"] = values["lm_loss"] + code.shown_offset
    values["loss"] = values["lm_loss"] / (1.0 - values["aux_loss_share"])
    values["grad_norm"] = 1.0 * np.exp(0.25 * noise("grad")) * (1.0 + decay)
    lr = 0.6 * code.router_rate() / 1e-3
    values["update_norm/group.router"] = 0.03 * lr * np.exp(0.03 * noise("upd"))
    values["update_norm/group.attention"] = 0.16 * code.attention_lr / 3e-3 * np.exp(0.01 * noise("upa"))
    wrong_order = code.num_devices not in (0, stretch.dp_size)
    values["repeated_samples"] = np.where((age > 1) & wrong_order, 4.0, 0.0)
    values["tokens_per_second"] = 9000.0 * code.speed * np.exp(0.1 * noise("speed"))
    values["step_time_s"] = 512.0 / values["tokens_per_second"]
    return values


class _Noise:
    """Standard normal noise by name: the same for each (seed, step), plus a tenth that depends on the code."""

    def __init__(self, seed: int, steps: np.ndarray, code: Code) -> None:
        self._seed, self._steps, self._digest = seed, steps, code.digest()

    def __call__(self, name: str) -> np.ndarray:
        key = int.from_bytes(hashlib.sha256(f"{self._seed}:{name}".encode()).digest()[:6], "big")
        last = int(self._steps[-1])
        shared = np.random.default_rng(key).normal(size=400)[: last + 1]
        stirred = np.random.default_rng(key ^ self._digest).normal(size=400)[: last + 1]
        return np.asarray((0.995 * shared + 0.1 * stirred)[self._steps])


def run_view(seed: int, *codes: Code, cuts: tuple[int, ...] = CUTS, dp_sizes: tuple[int, ...] = ()) -> RunView:
    """A run of one segment per code, resumed at the cuts."""
    stretches = [
        Stretch(start=start, end=end, code=code, dp_size=dp)
        for start, end, code, dp in zip((0, *cuts), cuts, codes, dp_sizes or (4,) * len(codes), strict=False)
    ]
    parts = [measure(seed, stretch) for stretch in stretches]
    values = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    segments = tuple(
        SegmentView(
            number=i,
            start_step=s.start,
            last_step=s.end,
            code_version=f"version-{i}",
            dp_size=s.dp_size,
            declared=declared(s.code, s.dp_size),
            effective=effective(s.code),
        )
        for i, s in enumerate(stretches)
    )
    return make_view(f"run-{seed}", np.arange(1, stretches[-1].end + 1), values, segments)


def declared(code: Code, dp_size: int) -> dict[str, Scalar]:
    """The declared configuration that such code gives."""
    return {
        "optim.router_lr": code.router_lr,
        "optim.bias_lr": code.bias_lr,
        "optim.attention_lr": code.attention_lr,
        "optim.norm.weight_decay": 0.0,
        "data.mixture": code.mixture,
        "data.batch_size": 16,
        "data.seq_len": 64,
        "parallel.dp_size": dp_size,
        "steps": 240,
    }


def effective(code: Code) -> dict[str, Scalar]:
    """What the optimizer uses."""
    decayed: Mapping[str, Scalar] = {"optim.head.weight_decay": 0.1, "optim.norm.weight_decay": 0.0}
    group = "head" if code.norm_decay else "norm"
    gains: dict[str, Scalar] = {f"param_group.layers.{i}.norm.weight": group for i in range(LAYERS)}
    routers: dict[str, Scalar] = {f"param_group.layers.{i}.router.weight": code.router_group for i in range(LAYERS)}
    return {**decayed, **gains, **routers, "optim.router_lr": code.router_lr}


HEALTHY = Code()
INNOCENT = Code(attention_lr=3.15e-3, mixture=0.37)
