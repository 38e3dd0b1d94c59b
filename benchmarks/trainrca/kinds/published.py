"""Faults of a training with a published trainer: Hugging Face's, on a small GPT-2, through the `command` backend."""

from __future__ import annotations

from benchmarks.trainrca.editing import Apply
from benchmarks.trainrca.kinds import Kind
from benchmarks.trainrca.kinds.arithmetic import edit, setting
from benchmarks.trainrca.kinds.course import at_resume


def kind(family: str, name: str, apply: Apply) -> Kind:
    """Of the Hugging Face training."""
    return Kind(name=name, family=family, trainer="huggingface", apply=apply)


_RATE = '    training_args.learning_rate = config["optim"]["lr"]\n'

KINDS = [
    kind(
        "data",
        "labels_rolled",
        edit("data: other labels", "train.py", '"labels": tokens}', '"labels": tokens.roll(3)}'),
    ),
    kind("data", "noise_passes", setting("config: more pages", '"keep_above": 0.4', '"keep_above": 0.0')),
    kind(
        "data",
        "strides_of_all_lengths",
        edit("data: more variety", "train.py", "1 + index // VOCABULARY % 3", "1 + index * index % 29"),
    ),
    kind(
        "data",
        "tokens_of_another_text",
        edit(
            "data: shorter texts", "train.py", "stride * torch.arange(LENGTH))", "stride * torch.arange(LENGTH) ** 2)"
        ),
    ),
    kind("optimisation", "smoothed_away", setting("config: softer labels", '"smoothing": 0.0', '"smoothing": 0.6')),
    kind("optimisation", "rate_times_fifty", setting("config: learn faster", '"lr": 0.01', '"lr": 0.5')),
    kind(
        "optimisation",
        "clipped_away",
        edit("train: safe steps", "train.py", _RATE, _RATE + "    training_args.max_grad_norm = 1e-7\n"),
    ),
    kind("model code", "dropped_out", edit("train: regularise", "train.py", "resid_pdrop=drop", "resid_pdrop=0.6")),
    kind(
        "loop",
        "optimizer_forgotten",
        at_resume("resume: less to read", "train.py", "        restored = checkpoint\n", "        restored = None\n"),
    ),
]
