"""Words of the field that mean about the same. A small embedding model and a word index know neither that an
interconnect is a network nor that `lr` is a learning rate; this table does. A line more is knowledge more.
"""

from __future__ import annotations

import re

_GROUPS = (
    ("lr", "learning rate", "step size"),
    ("wd", "weight decay", "decayed"),
    ("grad norm", "gradient norm"),
    ("attn", "attention"),
    ("moe", "mixture of experts"),
    ("balance coef", "balance loss", "auxiliary loss", "aux loss", "load balancing", "balancing penalty"),
    ("max vio", "maximum violation", "imbalance", "unbalanced", "badly balanced", "uneven"),
    ("router", "gate", "gating", "routing"),
    ("lm head", "output head", "output projection", "unembedding", "output embeddings", "language model head"),
    ("weight tying", "tying", "tied", "shared weights", "sharing the weights"),
    ("sequence length", "seq len", "context length", "context window"),
    ("resume", "resumed", "restart", "restarted", "resuming"),
    ("rank", "worker", "gpu"),
    ("straggler", "slow rank", "slow node", "twice as long"),
    ("hosts", "nodes", "machines", "servers"),
    ("throughput", "tokens per second", "tflops", "step time", "slowdown", "slower", "training speed"),
    ("network", "interconnect", "bandwidth"),
    ("deadlock", "hang", "hangs", "stall", "stalls", "stuck"),
    ("nan", "non finite", "overflow", "not a number"),
    ("overfitting", "over fitting", "memorisation", "generalisation gap", "generalization gap"),
    ("dedup", "deduplication", "duplicates"),
    ("mixture", "data mix", "mix of the data"),
    ("corpus", "dataset", "data set", "training data"),
    ("crawl", "web corpus", "web pages"),
    ("betas", "beta1", "beta2", "adam", "adamw"),
    ("annealing", "decay phase", "cooldown", "warmdown"),
    ("fp8", "bf16", "fp16", "low precision", "lower precision", "half precision", "8 bit", "16 bit"),
    ("rmsnorm", "layernorm", "normalisation", "normalization"),
    ("position ids", "positions", "rotary", "rope", "position encoding", "positional encoding", "position embedding"),
    ("power", "electricity", "outage"),
    ("micro batch", "micro batches", "gradient accumulation"),
    ("tensor parallel", "model parallel", "split over devices", "sharded"),
    ("seed", "initial weights", "initialisation"),
    ("evaluation", "validation", "eval"),
    ("perplexity", "ppl", "bpb"),
    ("spike", "spikes", "jump", "burst"),
    ("diverges", "blows up", "explodes"),
    ("dead expert", "unused expert", "starve", "receives no token"),
    ("repeated samples", "seen twice", "read twice", "a second time"),
    ("out of memory", "oom", "gpu memory"),
    ("checkpoint", "snapshot", "saved weights"),
    ("optimizer state", "moments", "momentum", "running averages"),
    ("parameter group", "param group"),
    ("packing", "packed", "document borders"),
    ("tokenizer", "vocabulary", "bpe", "vocab size"),
    ("clipping", "clip", "max norm"),
    ("warmup", "warm up"),
    ("batch size", "global batch"),
    ("distillation", "teacher"),
    ("licence", "license", "copyright", "legal"),
    ("config", "configuration", "hyperparameter", "setting"),
)
TEXTS_VERSION = 2  # stands beside every vector: another table here makes other texts, which are embedded again
_SAME = {phrase: group for group in _GROUPS for phrase in group}
_ANY = re.compile(r"\b(?:" + "|".join(sorted(map(re.escape, _SAME), key=len, reverse=True)) + r")\b")


def plain(text: str) -> str:
    """Identifiers as words: `optim.maxLr` becomes `optim max Lr`; numbers stay whole."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    return re.sub(r"\s+", " ", re.sub(r"(?<=[^\W\d])[._/]+(?=\w)|(?<=\d)[_/]+(?=[^\W\d])", " ", spaced)).strip()


def embedded_text(text: str) -> str:
    """What is given to the embedder, for a stored text and for a question alike."""
    others = meanings(text)
    return f"{plain(text)}. {others}" if others else plain(text)


def meanings(text: str) -> str:
    """Other words for what the text speaks of, those it has not."""
    lower = plain(text).lower()
    found = dict.fromkeys(match[0] for match in _ANY.finditer(lower))
    others = dict.fromkeys(other for phrase in found for other in _SAME[phrase])
    return ", ".join(other for other in others if other not in lower)
