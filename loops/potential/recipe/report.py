"""The decision record as a person reads it: both curves, every pilot, the problems; never a score without the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


def markdown(body: Mapping[str, Any]) -> str:
    return "\n".join([*_head(body), *_curves(body), *_pilots(body), *_problems(body), *_candidates(body)])


def _head(body: Mapping[str, Any]) -> Iterator[str]:
    yield f"# Decision: {body['choice']}\n"
    yield f"{body['sentence']}.\n"
    yield f"{body['scope']}.\n"


def _curves(body: Mapping[str, Any]) -> Iterator[str]:
    yield f"## Both curves of {body['run_id']}\n"
    curves = body["curves"]
    yield "| step | base | after the same SFT |\n|---|---|---|"
    for step, base, sft in zip(curves["steps"], curves["base"], curves["sft"], strict=True):
        yield f"| {step} | {base:.1f} | {np.mean(sft):.1f} |"
    yield ""


def _pilots(body: Mapping[str, Any]) -> Iterator[str]:
    yield "## Pilots\n"
    yield "| rung | recipe | steps | seed | loss | base | after SFT |\n|---|---|---|---|---|---|---|"
    for each in sorted(body["pilots"], key=lambda one: (one["rung"], one["candidate"], one["seed"])):
        yield (
            f"| {each['rung'] + 1} | {each['candidate']} | {each['steps']} | {each['seed']} | {each['loss']:.3f} "
            f"| {each['base']:.1f} | {each['tiny']:.1f} |"
        )
    yield ""


def _problems(body: Mapping[str, Any]) -> Iterator[str]:
    yield "## Problems found, removed, carried over\n"
    for number, rung in enumerate(body["rungs"], start=1):
        for each in rung:
            problems = each["problems"]
            told = "; ".join(f"{kind.replace('_', ' ')}: {', '.join(problems[kind]) or 'none'}" for kind in problems)
            low, high = each["difference"]["low"], each["difference"]["high"]
            points = f"{each['difference']['mean']:+.1f} points ({low:+.1f} to {high:+.1f})"
            yield f"- rung {number}, {each['name']}: {points}; {told}"
    yield "" if body["finalists"] else "No recipe reached the last rung beside the unchanged one.\n"


def _candidates(body: Mapping[str, Any]) -> Iterator[str]:
    yield "## Why these were tried\n"
    for each in body["candidates"]:
        changes = ", ".join(f"{key}={value}" for key, value in each["overrides"].items()) or "no change"
        yield f"- {each['name']} ({changes}): {each['why']}; rests on {', '.join(each['evidence']) or 'no record'}"
    yield from (f"- left out: {each}" for each in body["left_out"])
