"""Foreign metric names on ours (contracts.names), where the meaning is certain. Everything else keeps its name.

Values are never converted: where a unit differs from that of our own series, the name says the unit. What a name was
in the source is stored with the run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Meaning certain whatever the framework: raw training loss, norm before clipping, one learning rate, one global speed.
COMMON: Mapping[str, str] = {
    "train/loss": "loss",
    "training/loss": "loss",
    "loss/train": "loss",
    "Loss/train": "loss",
    "train_loss": "loss",
    "loss": "loss",
    "train/lm_loss": "lm_loss",
    "train/lm loss": "lm_loss",
    "lm loss": "lm_loss",
    "lm-loss": "lm_loss",
    "train/aux_loss": "aux_loss",
    "train/grad_norm": "grad_norm",
    "grad-norm": "grad_norm",
    "grad norm": "grad_norm",
    "gnorm": "grad_norm",
    "train/learning_rate": "lr",
    "train/lr": "lr",
    "learning_rate": "lr",
    "learning-rate": "lr",
    "learning rate": "lr",
    "val_loss": "eval_loss",
    "val/loss": "eval_loss",
    "valid/loss": "eval_loss",
    "validation/loss": "eval_loss",
    "Loss/val": "eval_loss",
    "eval/loss": "eval_loss",
    "eval_loss": "eval_loss",
    "val_bpb": "eval_bpb",
    "val/bpb": "eval_bpb",
    "val/ppl": "eval_ppl",
    "eval/ppl": "eval_ppl",
    "tokens/s": "tokens_per_second",
    "tok/s": "tokens_per_second",
    "tok/sec": "tokens_per_second",
    "train/tok_per_sec": "tokens_per_second",
    "tokens_per_sec": "tokens_per_second",
    "perf/tokens_per_s": "tokens_per_second",
    "perf/step_ms": "step_time_ms",
    "samples per second": "samples_per_second",
    "TFLOPs": "tflops",
    "amp/loss_scale": "loss_scale",
    "loss scale": "loss_scale",
    "amp/skipped_total": "skipped_total",
    "params norm": "weight_norm",
    "num zeros": "num_zeros",
    "num-zeros": "num_zeros",
}
_MOE = re.compile(r"^(?:train/)?moe/(layers\.\d+)/(\w+?)(?:/(\d+))?$")
_SLICE = re.compile(r"^(?:eval|val)/slice_(\w+)/(\w+)$")
_LAYER = re.compile(r"^(?:train/)?(layers?|blocks?|h)[./](\d+)[./](\w+)$")
_STATISTICS = {"expert_load": "expert_share"}  # ours is load x number of experts; a foreign load is a share of tokens


class Renaming:
    """The names of one run. Of two names of the source that mean the same, the second keeps its own."""

    def __init__(self, extra: Mapping[str, str]) -> None:
        self._extra = extra
        self._ours: dict[str, str] = {}
        self._originals: dict[str, str] = {}

    def __call__(self, original: str) -> str:
        if original not in self._ours:
            text = original.replace("\0", "").encode("utf-8", "backslashreplace").decode()
            base, rank, number = text.partition("@rank=")
            names = (f"{rename(base, self._extra)}{rank}{number}", text, f"original/{text}")
            name = next(each for each in names if self._originals.setdefault(each, original) == original)
            self._ours[original] = name
        return self._ours[original]

    @property
    def changed(self) -> dict[str, str]:
        """Our name -> that of the source, where they differ."""
        return {ours: original for original, ours in self._ours.items() if ours != original}


def rename(name: str, extra: Mapping[str, str] = {}) -> str:
    """Our name, or `name` itself. `extra`: what one format knows besides, and before, the common names."""
    if name in extra:
        return extra[name]
    if name in COMMON:
        return COMMON[name]
    if match := _MOE.match(name):
        statistic = _STATISTICS.get(match[2], match[2])
        return f"{statistic}/{match[1]}" + (f"/experts.{match[3]}" if match[3] else "")
    if match := _SLICE.match(name):
        return f"eval_{match[2]}/slice.{match[1]}"
    if match := _LAYER.match(name):
        return f"{match[3]}/layers.{match[2]}"
    return name
