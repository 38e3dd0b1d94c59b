"""Which words of a change bear on which statistics. Declared, small, and open: a line more is knowledge more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Topic:
    """`words`: stems looked for in paths, symbols, identifiers and config fields. `statistics`: patterns of series."""

    name: str
    words: frozenset[str]
    statistics: tuple[str, ...]

    def bears_on(self, series: str) -> bool:
        return any(re.search(pattern, series) for pattern in self.statistics)


def _topic(name: str, words: str, *statistics: str) -> Topic:
    return Topic(name=name, words=frozenset(words.split()), statistics=statistics)


TOPICS = (
    _topic(
        "load balance",
        "balance penalty aux auxiliary load expert experts probs scope",
        r"max_vio", r"balance_loss", r"expert_load", r"aux_loss", r"router_entropy",
    ),
    _topic(
        "router",
        "router gate gating topk top_k logit logits temperature jitter routing z_loss",
        r"router", r"z_loss", r"max_vio", r"expert_load", r"aux_loss", r"balance_loss",
    ),
    _topic(
        "optimizer",
        "optimizer optim lr learning_rate adamw adam muon beta1 beta2 eps momentum clip max_norm schedule warmup ratio",
        r"update_norm", r"weight_norm", r"grad_norm", r"loss$", r"router_logit", r"z_loss", r"max_vio",
    ),
    _topic(
        "weight decay and parameter groups",
        "weight_decay decay decayed parameter_group group groups param_group",
        r"weight_norm", r"update_norm", r"weight_decay", r"router_logit", r"grad_norm", r"router$",
    ),
    _topic("norms", "norm norms gain gains rmsnorm layernorm", r"norm$", r"router_logit"),
    _topic(
        "sample order",
        "position positions offset offsets order shuffle sampler rank ranks dp_size device devices loader resume seed",
        r"repeated_samples", r"data_position", r"mixture/",
    ),
    _topic(
        "data",
        "data mixture source sources corpus tokenizer sample samples weights batch_size seq_len stride",
        r"lm_loss", r"mixture/", r"^loss", r"repeated_samples",
    ),
    _topic(
        "numerics",
        "dtype float16 bfloat16 float32 eps softmax log exp sqrt div scale cast amp nan clamp",
        r"nonfinite", r"grad_norm", r"loss", r"weight_norm",
    ),
    _topic(
        "speed",
        "sleep sync synchronize num_threads cache compile memory workers pin prefetch device",
        r"tokens_per_second", r"step_time",
    ),
)  # fmt: skip


def topics_of(words: Iterable[str]) -> tuple[Topic, ...]:
    """Topics that share a word with `words` (lower-cased; dotted and snake-case names also count by their parts)."""
    known = set(split_words(words))
    return tuple(topic for topic in TOPICS if topic.words & known)


def split_words(names: Iterable[str]) -> Iterable[str]:
    """Each name lower-cased, its dotted parts, and their snake-case parts; shape suffixes (`probs_RNE`) are dropped."""
    for name in names:
        plain = re.sub(r"_[A-Z]+$", "", name)
        for part in re.split(r"[./]", plain):
            yield part.lower()
            yield from (piece for piece in part.lower().split("_") if len(piece) > 1)
