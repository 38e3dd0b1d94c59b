"""What a recipe would do, without doing it: `python -m trainer.plan [--steps N] PROJECT ENTRY [FIELD=VALUE ...]`.

Nothing is allocated: parameters are counted from their shapes.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from contracts.errors import LatheError
from trainer.config import ParallelConfig, TrainConfig
from trainer.feasibility import activation_bytes, process_bytes
from trainer.project import load_recipe
from trainer.ranks.mesh import Mesh
from trainer.recipe import PlannedStage, Recipe
from trainer.repeats import repeats
from trainer.weights import num_parameters, parameter_shapes


def plan_lines(recipe: Recipe) -> Iterator[str]:
    """The resolved plan, a line each: model, stages with their tokens, memory, and who computes what."""
    plan = recipe.plan()
    config = plan[0].config
    shapes = parameter_shapes(config.model, config.moe, config.mtp)
    total = num_parameters(shapes)
    yield (
        f"model: {_count(total)} parameters, {_count(_active(config))} of them for a token; {len(shapes)} tensors; "
        f"seed {config.seed}"
    )
    tokens = 0
    for stage in plan:
        tokens += (stage.last_step - stage.first_step) * stage.config.data.batch_size * stage.config.data.seq_len
        yield from _stage_lines(stage, recipe, tokens)
    yield from _repeat_lines(recipe)


def until(recipe: Recipe, step: int) -> Recipe:
    """The recipe as far as `step`; its last stage goes on for longer where that lies behind the end."""
    if not recipe.stages:
        return recipe.with_overrides({"steps": step})
    kept = [(own, at) for own, at in zip(recipe.stages, recipe.plan(), strict=True) if at.first_step < step]
    last, place = kept[-1]
    stages = (*(stage for stage, _ in kept[:-1]), replace(last, steps=step - place.first_step))
    return replace(recipe, stages=stages)


def _stage_lines(stage: PlannedStage, recipe: Recipe, tokens: int) -> Iterator[str]:
    config, data = stage.config, stage.config.data
    batch = data.batch_size * data.seq_len
    steps = stage.last_step - stage.first_step
    begins = "random weights" if stage.first_step == 0 else "previous weights, "
    if stage.first_step:
        begins += "optimizer reset" if stage.resets_optimizer else "optimizer kept"
    yield (
        f"{stage.name or 'training'}: steps {stage.first_step + 1:,} to {stage.last_step:,} of {data.batch_size:,} x "
        f"{data.seq_len:,} = {batch:,} tokens; {_count(steps * batch)} tokens, {_count(tokens)} in all; {begins}"
    )
    schedule, moe = config.schedule, config.moe
    rate = max(config.optim.group(group).lr for group in ("attention", "experts"))
    decay = "flat" if schedule.kind == "constant" else f"{schedule.kind} to {rate * schedule.min_ratio:g}"
    warm = f"warm-up {schedule.warmup_steps:,}" if schedule.from_step == stage.first_step else "no warm-up"
    yield (
        f"  rope base {config.model.rope_base:g}; rate {rate:g}, {warm}, {decay}; balance {moe.balance.coef:g} "
        f"({moe.balance.scope}), router z-loss {moe.z_loss.coef:g}; documents {data.documents}"
        + (f"; {stage.about}" if stage.about else "")
    )
    drawn = {source: share for source, share in _shares(config).items() if share}
    yield "  mixture: " + ", ".join(f"{source} {share:.0%}" for source, share in drawn.items())
    yield f"  memory of a process: {_memory(recipe, config)}"
    yield from ("  " + line for line in _layout(config.parallel))


def _repeat_lines(recipe: Recipe) -> Iterator[str]:
    found = repeats(recipe)
    if found:
        yield "tokens drawn / unique tokens, so far: " + ", ".join(
            f"{each.source} {each.times:.2f} by the end of {each.stage}" for each in found if each.is_last
        )
    for each in found:
        if each.is_heavy:
            yield f"WARNING: {each.source} is read {each.times:.1f} times by the end of {each.stage}"


def _shares(config: TrainConfig) -> dict[str, float]:
    """Of the first step of a stage."""
    if config.data.documents == "answers":
        return {"answers": 1.0}
    weights = config.data.mixture.weights()
    return {name: weight / sum(weights) for name, weight in zip(config.data.source_names(), weights, strict=True)}


def _memory(recipe: Recipe, config: TrainConfig) -> str:
    state, activations = process_bytes(config, recipe.parts.parameter_group), activation_bytes(config)
    gathered = ", of which a checkpoint gathers all" if config.parallel.processes else ""
    return (
        f"{_bytes(state)} for weights, gradients and moments{gathered}, at least {_bytes(activations)} for activations"
    )


def _layout(parallel: ParallelConfig) -> Iterator[str]:
    if parallel.processes:
        yield from Mesh.of(parallel).lines()
    else:
        yield f"one process; data parallel {parallel.dp_size} x context parallel {parallel.cp_size} are simulated"
    if parallel.accumulation > 1:
        yield f"{parallel.accumulation} passes of each rank's rows before one update"


def _active(config: TrainConfig) -> int:
    """Parameters that one token meets."""
    shapes = parameter_shapes(config.model, config.moe, config.mtp)
    routed = sum(math.prod(shape) for name, shape in shapes.items() if ".experts." in name)
    return num_parameters(shapes) - routed + routed * config.moe.top_k // config.moe.num_experts


def _count(number: int) -> str:
    for size, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if number >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:,}"


def _bytes(size: float) -> str:
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"


def main(arguments: Sequence[str]) -> int:
    """Print the plan; 2 when the recipe must be corrected."""
    parser = argparse.ArgumentParser(prog="trainer.plan")
    parser.add_argument("project", type=Path)
    parser.add_argument("entry")
    parser.add_argument("--steps", type=int)
    parser.add_argument("assignments", nargs="*")
    given = parser.parse_args(arguments)
    try:
        recipe = load_recipe(given.project, given.entry)
        recipe = recipe.with_overrides(dict(each.partition("=")[::2] for each in given.assignments))
        recipe = until(recipe, given.steps) if given.steps else recipe
        for line in plan_lines(recipe):
            sys.stdout.write(line + "\n")
    except LatheError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
