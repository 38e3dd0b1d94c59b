"""The harmless commits of the demo project: what a team changes in an ordinary month.

None of them makes a training worse. A few do change its numbers a little, as real ones do.
"""

from __future__ import annotations

from control_plane.demo.changes import Change, Edit

INNOCENT = (
    Change(
        subject="balance: name the shared load after its meaning",
        edits=(
            Edit(
                path="balance.py",
                before="    total_E = load_RE.mean(dim=0)\n    return total_E.expand_as(load_RE)\n",
                after="    global_load_E = load_RE.mean(dim=0)\n    return global_load_E.expand_as(load_RE)\n",
            ),
        ),
    ),
    Change(
        subject="balance: cite the paper",
        edits=(
            Edit(
                path="balance.py",
                before="Shapes: R data-parallel ranks, N tokens of a rank, E experts.\n",
                after="Fedus et al. 2021 (Switch Transformer), equation 4.\n"
                "Shapes: R data-parallel ranks, N tokens of a rank, E experts.\n",
            ),
        ),
    ),
    Change(
        subject="schedule: take the warmup out into its own function",
        body="No change in behaviour; the next schedule will want to reuse it.",
        edits=(
            Edit(
                path="schedule.py",
                before="    if step < schedule.warmup_steps:\n        return (step + 1) / schedule.warmup_steps\n",
                after="    if step < schedule.warmup_steps:\n        return warmup(step, schedule.warmup_steps)\n",
            ),
            Edit(
                path="schedule.py",
                before="def cosine(progress: float) -> float:\n",
                after="def warmup(step: int, length: int) -> float:\n"
                '    """A straight line that reaches 1.0 at the last of `length` steps."""\n'
                "    return (step + 1) / length\n"
                "\n\n"
                "def cosine(progress: float) -> float:\n",
            ),
        ),
    ),
    Change(
        subject="schedule: spell out the floor",
        edits=(
            Edit(
                path="schedule.py",
                before="    floor = schedule.min_ratio\n    return floor + (1.0 - floor) * cosine(progress)\n",
                after="    lowest = schedule.min_ratio\n    return lowest + (1.0 - lowest) * cosine(progress)\n",
            ),
        ),
    ),
    Change(
        subject="loader: say what a turn is",
        edits=(
            Edit(
                path="loader.py",
                before="    local_batch = config.batch_size // config.dp_size\n",
                after="    # The ranks take turns, one sample each.\n"
                "    local_batch = config.batch_size // config.dp_size\n",
            ),
        ),
    ),
    Change(
        subject="loader: plainer words in the docstring",
        edits=(
            Edit(
                path="loader.py",
                before="This file only says how the ranks share them.\n",
                after="Here we only decide which rank reads which of them.\n",
            ),
        ),
    ),
    Change(
        subject="report: a fixed number of digits for the step",
        body="The columns of the console output line up now.",
        edits=(
            Edit(
                path="report.py",
                before='    parts = [f"step {step}", f"lm_loss {loss}", f"max_vio {vio}"]\n',
                after='    parts = [f"step {step:6d}", f"lm_loss {loss}", f"max_vio {vio}"]\n',
            ),
        ),
    ),
    Change(
        subject="report: show the speed in thousands",
        edits=(
            Edit(
                path="report.py",
                before='    parts.append(f"{speed:.0f} tokens/s")\n',
                after='    parts.append(f"{speed / 1000:.1f}k tokens/s")\n',
            ),
        ),
    ),
    Change(
        subject="report: four digits for the losses",
        edits=(Edit(path="report.py", before='    return f"{value:.3f}"\n', after='    return f"{value:.4f}"\n'),),
    ),
    Change(
        subject="readme: how to write a commit message",
        edits=(
            Edit(
                path="README.md",
                before="Change one thing in a commit, say why in its message.\n",
                after="Change one thing in a commit, say why in its message.\n"
                "Numbers go into `recipe.py` only, so that a diff of the recipe shows every experiment.\n",
            ),
        ),
    ),
    Change(
        subject="groups: say what the list is for",
        edits=(
            Edit(
                path="groups.py",
                before='MATRICES = ("embedding", "head", "experts")\n',
                after="# Modules whose name is also the name of their group.\n"
                'MATRICES = ("embedding", "head", "experts")\n',
            ),
        ),
    ),
    Change(
        subject="groups: the last case needs no comment",
        edits=(
            Edit(
                path="groups.py",
                before="    # Whatever is left are the projections of attention.\n",
                after="",
            ),
        ),
    ),
    Change(
        subject="recipe: attention learns five percent faster",
        body="A sweep on the small model liked it.",
        edits=(
            Edit(
                path="recipe.py",
                before='        attention=GroupConfig(\n            optimizer="muon",\n            lr=3e-3,\n',
                after='        attention=GroupConfig(\n            optimizer="muon",\n            lr=3.15e-3,\n',
            ),
        ),
    ),
    Change(
        subject="recipe: a little more documentation in the mixture",
        edits=(
            Edit(path="recipe.py", before="        library=0.40,\n", after="        library=0.38,\n"),
            Edit(path="recipe.py", before="        documentation=0.20,\n", after="        documentation=0.22,\n"),
        ),
    ),
    Change(
        subject="recipe: a longer second moment for the embedding",
        edits=(Edit(path="recipe.py", before="            beta2=0.95,\n", after="            beta2=0.96,\n"),),
    ),
)
