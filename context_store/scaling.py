"""Which value did not scale with the others when the model was scaled. Pure: configurations in, findings out.

Three grounds, strongest first: a power law that held in earlier runs of other sizes; a product that held in the
reference (heads x head_dim = width); a declared rule of how a value goes with a size, when the value stayed as it was.
A finding says what to look at; it is no verdict. Not covered: values that scale with something that no field names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from contracts.events import Scalar

TOLERANCE = 0.01  # relative; what deviates less was rounded
_POWERS = (1.0, -1.0, 0.5, -0.5, 2.0)
_WORD = r"(?:^|[._])"
_WIDTH = rf"{_WORD}(?:d_model|hidden_size|n_embd|width|dim|hidden_dim)$"
_LENGTH = rf"{_WORD}(?:steps|total_steps|max_steps|train_iters|num_steps|max_iters)$"
_HEADS = rf"{_WORD}(?:num_heads|n_heads?|num_attention_heads)$"
_HEAD_DIM = rf"{_WORD}(?:head_dim|d_head)$"
_BATCH = rf"{_WORD}(?:global_)?batch(?:_size)?$"
_SIZES = re.compile(
    "|".join([_WIDTH, _LENGTH, _HEADS, _HEAD_DIM, _BATCH])
    + rf"|{_WORD}(?:num_(?:hidden_)?layers|n_layers?|depth|d_ff|d_expert|ffn_hidden_size|intermediate_size"
    r"|num_experts|n_experts|vocab_size|seq_len(?:gth)?|context_length|block_size|num_kv_heads)$"
)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """`value` goes with `size` to the `power`. Declared, and open: a line more is knowledge more."""

    value: str
    size: str
    power: float
    why: str


RULES = (
    Rule(value=r"warm_?up(?:_steps|_iters)?$", size=_LENGTH, power=1.0, why="warm-up is a share of the training"),
    Rule(value=r"(?:decay|cooldown|anneal)_(?:steps|iters)$", size=_LENGTH, power=1.0, why="so is the decay"),
    Rule(value=r"(?:d_ff|d_expert|ffn_hidden_size|intermediate_size)$", size=_WIDTH, power=1.0,
         why="the inner width is a multiple of the width"),
    Rule(value=r"init.*std$|initializer_range$", size=_WIDTH, power=-0.5, why="initial weights go with 1/sqrt(width)"),
    Rule(value=r"(?:attention|softmax|attn)_scale$", size=_HEAD_DIM, power=-0.5, why="logits go with 1/sqrt(head_dim)"),
    Rule(value=r"embedding_scale$|embed_scale$", size=_WIDTH, power=0.5, why="embeddings go with sqrt(width)"),
    Rule(value=_WORD + r"(?:lr|learning_rate|max_lr)$", size=_WIDTH, power=-1.0, why="muP: rates go with 1/width"),
    Rule(value=_WORD + r"(?:lr|learning_rate|max_lr)$", size=_BATCH, power=0.5, why="rates go with sqrt(batch)"),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class NotScaled:
    """`key` has `value` where `expected` follows from the field `size`. `basis`: on what ground, in words."""

    key: str
    value: float
    expected: float
    size: str
    basis: str


def not_scaled(references: Sequence[Mapping[str, Scalar]], config: Mapping[str, Scalar]) -> list[NotScaled]:
    """Of `config` against runs of other sizes, the nearest one last; empty when no size differs from that one.

    A value is left out as soon as one of its relations holds, or when it was changed by hand and no run says how.
    """
    if not references:
        return []
    earlier, now = [_numbers(each) for each in references], _numbers(config)
    nearest = earlier[-1]
    sizes = [key for key in now if _SIZES.search(key) and key in nearest and not _close(now[key], nearest[key])]
    found: dict[str, NotScaled] = {}
    for each in (*_learned(earlier, now, sizes), *_products(nearest, now), *_by_rule(nearest, now, sizes)):
        found.setdefault(each.key, each)
    return list(found.values())


def _learned(
    earlier: Sequence[Mapping[str, float]], now: Mapping[str, float], sizes: Sequence[str]
) -> Iterator[NotScaled]:
    """Power laws that held in all earlier runs, over at least two sizes and two values."""
    for key, value in now.items():
        laws = [law for size in sizes if size != key and (law := _law(earlier, key, size)) is not None]
        expected = [(size, factor * now[size] ** power) for size, factor, power in laws]
        if expected and not any(_close(value, each) for _, each in expected):
            size, best = expected[0]
            basis = f"{key} went with {size} in {len(earlier)} earlier runs"
            yield NotScaled(key=key, value=value, expected=best, size=size, basis=basis)


def _law(earlier: Sequence[Mapping[str, float]], key: str, size: str) -> tuple[str, float, float] | None:
    """(size, factor, power) such that key = factor * size ** power in every earlier run."""
    pairs = [(each[size], each[key]) for each in earlier if size in each and key in each]
    if len(pairs) < len(earlier) or len({x for x, _ in pairs}) < 2 or len({y for _, y in pairs}) < 2:
        return None
    for power in _POWERS:
        factors = [y / x**power for x, y in pairs]
        if all(_close(factor, factors[0]) for factor in factors):
            return size, factors[0], power
    return None


def _products(nearest: Mapping[str, float], now: Mapping[str, float]) -> Iterator[NotScaled]:
    """heads x head_dim = width, where it held before. Named is the factor that stayed, else the product."""
    widths, heads, dims = ([key for key in now if re.search(p, key)] for p in (_WIDTH, _HEADS, _HEAD_DIM))
    triples = ((w, h, d) for w in widths for h in heads for d in dims)
    for width, head, dim in triples:
        names = (width, head, dim)
        if any(name not in nearest for name in names) or not _close(nearest[width], nearest[head] * nearest[dim]):
            continue
        if _close(now[width], now[head] * now[dim]):
            continue
        basis = f"{width} was {head} x {dim}"
        kept = next((name for name in (dim, head) if _close(now[name], nearest[name])), width)
        other = head if kept == dim else dim
        expected = now[head] * now[dim] if kept == width else now[width] / now[other]
        yield NotScaled(key=kept, value=now[kept], expected=expected, size=width, basis=basis)


def _by_rule(nearest: Mapping[str, float], now: Mapping[str, float], sizes: Sequence[str]) -> Iterator[NotScaled]:
    for key, value in now.items():
        if key not in nearest or not _close(value, nearest[key]):
            continue
        for rule in RULES:
            size = next((each for each in sizes if re.search(rule.size, each)), None)
            if size is not None and size != key and re.search(rule.value, key):
                expected = value * (now[size] / nearest[size]) ** rule.power
                yield NotScaled(key=key, value=value, expected=expected, size=size, basis=rule.why)


def _numbers(config: Mapping[str, Scalar]) -> dict[str, float]:
    """Positive finite numbers: only those can have been scaled."""
    return {
        key: float(value)
        for key, value in sorted(config.items())
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
    }


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=TOLERANCE)
