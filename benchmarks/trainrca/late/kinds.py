"""Six kinds of faults by somebody who had not read what looks for them.

Each is what a colleague does for a good reason: less room, fewer allocations, a figure nearer to what is shipped. What
it costs shows later, or elsewhere than where it was done.
"""

from __future__ import annotations

from benchmarks.trainrca.editing import Config, Data, Repo
from benchmarks.trainrca.kinds import CODE, Cause, Kind


def _hidden_in_place(config: Config, repo: Repo, data: Data) -> Cause:
    """Inputs and labels are one tensor and the tokens are hidden in place, so what is to be guessed is hidden too."""
    hidden = "        hidden = torch.rand(LENGTH, generator=generator) < 0.125\n"
    shown = '        return {"input_ids": tokens.masked_fill_(hidden, 0), "labels": tokens}\n'
    fault = repo.commit(
        "data: one token in eight is hidden from the model",
        [("train.py", '        return {"input_ids": tokens, "labels": tokens}\n', hidden + shown)],
        body="So that it does not lean on the last two alone.",
    )
    return Cause(targets=(fault,), cause_kind=CODE)


def _shares_out_of_the_graph(config: Config, repo: Repo, data: Data) -> Cause:
    """The penalty is logged as before and has no gradient: nothing keeps the experts in use any more."""
    fault = repo.commit(
        "balance: keep the mean shares only",
        [("balance.py", "probs_RE = probs_RNE.mean(dim=1)", "probs_RE = probs_RNE.detach().mean(dim=1)")],
        body="The scores of single tokens need not be kept until the backward pass.",
    )
    return Cause(targets=(fault,), cause_kind=CODE)


def _buffers_made_once(config: Config, repo: Repo, data: Data) -> Cause:
    """They are never emptied, so each step adds to the gradients of all before, and the weights begin to swing."""
    empty = "[np.zeros_like(w) for w in weights]"
    fault = repo.commit(
        "train: buffers for the gradients are made once",
        [
            ("train.py", "PACE_S = 0.004", "BUFFERS: list[Floats] = []\nPACE_S = 0.004"),
            ("train.py", f"    losses, total = [], {empty}\n", f"    losses, total = [], BUFFERS or {empty}\n"),
            (
                "train.py",
                "    return float(np.mean(losses)), total\n",
                "    BUFFERS[:] = total\n    return float(np.mean(losses)), total\n",
            ),
        ],
    )
    return Cause(targets=(fault,), cause_kind=CODE)


def _errors_cut_to_levels(config: Config, repo: Repo, data: Data) -> Cause:
    """The cast cuts towards zero instead of rounding: small errors vanish, and the shares drift from the truth."""
    fault = repo.commit(
        "network: errors take four bits on the way back",
        [
            (
                "network.py",
                "    d_logits = (shares - wanted) / len(labels)\n",
                "    levels = (4 * (shares - wanted)).astype(np.int8)\n    d_logits = levels / (4 * len(labels))\n",
            )
        ],
        body="Backward passes of large pages are bound by memory.",
    )
    return Cause(targets=(fault,), cause_kind=CODE)


def _shipped_in_place(config: Config, repo: Repo, data: Data) -> Cause:
    """The evaluation rounds the very weights that the training goes on with, and most updates are lost."""
    before = "    _, _, shares = forward(weights, points)\n"
    shipped = "    for w in weights:\n        np.rint(2 * w, out=w)\n        w /= 2\n\n"
    fault = repo.commit(
        "evaluation: of the weights as we ship them",
        [("evaluation.py", before, shipped + before)],
        body="They are shipped as multiples of a half; what was measured so far is of weights that nobody runs.",
    )
    return Cause(targets=(fault,), cause_kind=CODE)


def _sorted_and_set_aside(config: Config, repo: Repo, data: Data) -> Cause:
    """Each alone does nothing. Together the last cluster is in the part that is not learnt from, and is forgotten."""
    ordered = "    order = labels.argsort(kind='stable')\n    return points[order], labels[order]\n"
    first = repo.commit(
        "pages: the points of a cluster lie together",
        [("pages.py", "    return points, labels\n", ordered)],
        body="They are read by hand now and then.",
    )
    second = repo.commit(
        "train: the last part of a page is set aside",
        [
            ("train.py", "in micro_batches(points, labels, count):", "in micro_batches(points, labels, count)[:-1]:"),
            ("train.py", "t + g / count for", "t + g / (count - 1) for"),
        ],
        body="For a gauge of the gradient noise, which comes next.",
    )
    return Cause(targets=(first, second), cause_kind=CODE)


KINDS = [
    Kind(name="hidden_in_place", family="data", trainer="huggingface", apply=_hidden_in_place, late=True),
    Kind(name="shares_detached", family="model code", trainer="moe", apply=_shares_out_of_the_graph, late=True),
    Kind(name="buffers_never_emptied", family="loop", trainer="clusters", apply=_buffers_made_once, late=True),
    Kind(name="errors_cut_to_levels", family="numerics", trainer="clusters", apply=_errors_cut_to_levels, late=True),
    Kind(name="rounded_in_place", family="evaluation", trainer="clusters", apply=_shipped_in_place, late=True),
    Kind(name="sorted_and_set_aside", family="interaction", trainer="clusters", apply=_sorted_and_set_aside, late=True),
]
