"""What a person reads of a run's potential: both curves, always, with intervals and what cannot be said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from loops.evals.gaps import UNREAD
from loops.potential.plan import PotentialPlan, by_step

_VIEWS = (
    "Three views are kept apart: base checkpoints as they are; base checkpoints after the same SFT; and light SFT "
    "against fully post-trained models, which is no like-for-like comparison and is not made here."
)


def markdown(plan: PotentialPlan, found: Mapping[str, Any]) -> str:
    """The whole report."""
    return "\n".join([*_verdict(found), *_curves(plan, found), *_ranks(found), *_protocols(found), *_learning(found)])


def _verdict(found: Mapping[str, Any]) -> Iterator[str]:
    verdict = found["verdict"]
    yield f"# {verdict['verdict'].replace('_', ' ')}"
    yield f"\n{verdict['sentence']}.\n"
    yield (
        f"{verdict['num_checkpoints']} checkpoints, {verdict['num_seeds']} seeds of the SFT; a wrong label of either "
        f"direction has a chance below {200 * verdict['error_rate']:.1f} %; a change after SFT of "
        f"{verdict['detectable']:.1f} points would be seen with 95 %.\n"
    )
    yield _VIEWS + "\n"


def _curves(plan: PotentialPlan, found: Mapping[str, Any]) -> Iterator[str]:
    yield "## Base and after the same SFT\n"
    yield "| step | tokens | base | after SFT (seeds) | mean |\n|---|---|---|---|---|"
    rows = zip(found["steps"], found["tokens"], found["base"], found["sft"], strict=True)
    for step, tokens, base, sft in rows:
        seeds = ", ".join(f"{score:.1f}" for score in sft)
        yield f"| {step} | {tokens:,} | {base:.1f} | {seeds} | {np.mean(sft):.1f} |"
    yield (
        f"\nPoints of {plan.num_items} items a task by {_code('ppl_acc_norm')}, chance is {found['chance']:.0f}. "
        "The two columns rest on different models: compare trends, not levels.\n"
    )
    for name in found["bits_per_byte"][0]:
        values = ", ".join(f"{each[name]:.3f}" for each in found["bits_per_byte"])
        yield f"- {name.replace('_', ' ')} (bits per byte, base): {values}"
    yield ""


def _ranks(found: Mapping[str, Any]) -> Iterator[str]:
    yield "## Ranks\n"
    yield "| step | base | rank | after SFT | rank |\n|---|---|---|---|---|"
    for row in found["ranks"]["rows"]:
        yield (
            f"| {row['checkpoint']} | {row['base']:.1f} | {row['base_rank']:g} | {row['sft']:.1f} "
            f"| {row['sft_rank']:g} |"
        )
    yield f"\n{_rho(found['ranks'])}.\n"
    yield from (f"- stage {name}: {_rho(each)}" for name, each in found["ranks"]["by_stage"].items())


def _rho(ranks: Mapping[str, Any]) -> str:
    rho = ranks["spearman"]
    if rho is None:
        return f"No Spearman rho: {ranks['refusal']}"
    return f"Spearman rho {rho['rho']:.2f} ({rho['low']:.2f} to {rho['high']:.2f})"


def _protocols(found: Mapping[str, Any]) -> Iterator[str]:
    for title, key, turned in (
        ("Best protocol of each base checkpoint", "maximum", "protocol_rank_changes"),
        ("Best protocol after SFT", "maximum_sft", "protocol_rank_changes_sft"),
    ):
        yield f"## {title}\n"
        yield "| step | best | corrected | largest mean | correction | spread |\n|---|---|---|---|---|---|"
        for step, best in by_step(found[key]).items():
            means = best["means"].values()
            yield (
                f"| {step} | {best['protocol']} | {best['value']:.1f} ({best['low']:.1f} to {best['high']:.1f}) "
                f"| {best['naive']:.1f} | {best['correction']:+.1f} | {max(means) - min(means):.1f} |"
            )
        yield from _by_task(list(by_step(found[key.replace("maximum", "maximum_by_task")]).values())[-1])
        pairs = "; ".join(f"{one} and {other}" for one, other in found[turned])
        yield f"\nOrder turned between the first and the last checkpoint: {pairs or 'none beyond noise'}.\n"
    told = [line for lines in found["findings"].values() for line in lines if UNREAD not in line]
    yield "## Protocols that disagree\n"
    unparsed = list(by_step(found["maximum"]).values())[-1]["unparsed"]
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in unparsed.items())
    yield f"Could not be read at the last base checkpoint, which is not the same as wrong: {shares}.\n"
    yield from (f"- {line}" for line in dict.fromkeys(told))
    yield "" if told else "None beyond noise.\n"


def _by_task(last: Mapping[str, Any]) -> Iterator[str]:
    """Best protocol and spread of each task at the last checkpoint; nothing where tasks were not kept apart."""
    if not last:
        return
    yield "\n| task, last checkpoint | best | corrected | spread |\n|---|---|---|---|"
    for task, best in last.items():
        means = best["means"].values()
        interval = f"{best['low']:.1f} to {best['high']:.1f}"
        yield f"| {task} | {best['protocol']} | {best['value']:.1f} ({interval}) | {max(means) - min(means):.1f} |"


def _learning(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"## Learnability ({found['learnability_is']})\n"
    for step, each in by_step(found["learnability"]).items():
        if each["fit"] is None:
            yield f"- step {step}: {each['refusal']}"
            continue
        start, slope = each["fit"]["start"], each["fit"]["slope"]
        yield (
            f"- step {step}: b {start['value']:.1f} ({start['low']:.1f} to {start['high']:.1f}), first score "
            f"{each['fit']['first_score']:.1f}; k {slope['value']:.1f} ({slope['low']:.1f} to {slope['high']:.1f}) "
            "points per tenfold data"
        )
    saving = found["saving"]
    if saving["ratio"] is None:
        yield f"\nNo data-saving ratio: {saving['refusal']}."
    else:
        ratio = saving["ratio"]
        ends = ["unbounded" if ratio[end] is None else f"{ratio[end]:.2g}" for end in ("low", "high")]
        yield (
            f"\nThe last checkpoint needs {ratio['value']:.2g} times less SFT data than the first for "
            f"{saving['target']:.1f} points ({ends[0]} to {ends[1]})."
        )
    if found["crossing"]:
        yield f"\nFirst and last checkpoint: {found['crossing']['sentence']}."


def _code(text: str) -> str:
    return f"`{text}`"
