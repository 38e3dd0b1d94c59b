"""What a series measures and in which unit, for axes."""

from __future__ import annotations

from collections.abc import Sequence

from ui.components.markup import escape

_UNITS = {
    "loss": "loss (nats per token)",
    "lm_loss": "language-model loss (nats per token)",
    "mtp_loss": "multi-token prediction loss (nats per token)",
    "balance_loss": "load-balance loss (1 = balanced)",
    "z_loss": "router z-loss (logits squared)",
    "aux_loss_share": "auxiliary share of the loss (fraction)",
    "grad_norm": "gradient norm (L2)",
    "weight_norm": "weight norm (L2)",
    "update_norm": "update norm (L2)",
    "max_vio": "MaxVio (excess over mean expert load, ratio)",
    "max_vio_micro": "MaxVio per micro-batch (ratio)",
    "expert_load": "expert load (1 = mean)",
    "router_logit_std": "router logit spread (logits)",
    "router_logit_max": "largest router logit (logits)",
    "router_entropy": "router entropy (nats)",
    "router_prob": "mean routing probability (fraction)",
    "choice_bias": "bias of the expert choice (score units)",
    "lr": "learning rate (per step)",
    "weight_decay": "weight decay (per step)",
    "tokens_per_second": "throughput (tokens/s)",
    "step_time_s": "step time (s)",
    "data_position": "samples read (count)",
    "repeated_samples": "repeated samples (count)",
    "mixture": "share of the batch (fraction)",
    "mixture_drift": "distance from the wanted mixture (fraction)",
    "padding_share": "padding among the tokens (fraction)",
    "attention_imbalance": "attention work of the busiest rank (1 = even)",
    "skipped_update": "update skipped (1 = yes)",
}


def axis_title(series: str) -> str:
    """The quantity and unit of a series name; the statistic itself where the unit is not known."""
    statistic = series.partition("/")[0].partition("@")[0]
    return _UNITS.get(statistic, statistic)


def brief(series: str) -> str:
    """For a small chart: two lines, `MaxVio<br>(ratio)`."""
    quantity, _, unit = axis_title(series).partition(" (")
    return f"{escape(quantity)}<br>({escape(unit.removesuffix(')').split(', ')[-1])})" if unit else escape(quantity)


def together(series: Sequence[str]) -> str:
    """Series of one statistic in words: `max_vio of layer 5, layer 7`; a whole-model series as it is."""
    statistic, _, module = series[0].partition("/")
    return f"{statistic} of {', '.join(short(name) for name in series)}" if module else series[0]


def short(series: str) -> str:
    """`max_vio/layers.5` as `layer 5`, `grad_norm/layers.3.attn` as `layer 3 attn`, a whole-model series as it is."""
    module = series.partition("/")[2]
    if not module:
        return series
    return module.replace("layers.", "layer ").replace("/experts.", " expert ").replace(".", " ")
