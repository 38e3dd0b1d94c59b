"""A run's potential as one picture: both curves, the fan of protocols, ranks, and learnability with bands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from loops.potential.plan import by_step


def draw(found: Mapping[str, Any], file: Path) -> None:
    """An SVG of the reading; no date in it, so that equal readings give equal files."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained")
    (curves, fan), (ranks, learning) = figure.subplots(2, 2)
    _curves(curves, found)
    _fan(fan, found)
    _ranks(ranks, found)
    _learning(learning, found)
    figure.suptitle(found["verdict"]["verdict"].replace("_", " "))
    figure.savefig(file, format="svg", metadata={"Date": None})


def _curves(axes: Any, found: Mapping[str, Any]) -> None:
    tokens = np.array(found["tokens"]) / 1e6
    sft = np.array(found["sft"])
    axes.plot(tokens, found["base"], "o-", label="base")
    axes.plot(tokens, sft.mean(axis=1), "s-", label="after the same SFT (mean of seeds)")
    for seed in range(sft.shape[1]):
        axes.plot(tokens, sft[:, seed], ".", color="C1", alpha=0.5)
    axes.set(title="Potential over tokens", xlabel="million tokens", ylabel="points")
    axes.legend(fontsize=8)


def _fan(axes: Any, found: Mapping[str, Any]) -> None:
    tokens = np.array(found["tokens"]) / 1e6
    best = list(by_step(found["maximum"]).values())
    for number, name in enumerate(best[0]["means"]):
        values = [each["means"].get(name) for each in best]
        axes.plot(tokens, values, linewidth=1, color=f"C{number}", label=name)
    values = [each["value"] for each in best]
    low = [each["value"] - each["low"] for each in best]
    high = [each["high"] - each["value"] for each in best]
    axes.errorbar(tokens, values, yerr=[low, high], fmt="k^", capsize=3, label="best, corrected")
    axes.set(title="Base under each protocol", xlabel="million tokens", ylabel="points")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _ranks(axes: Any, found: Mapping[str, Any]) -> None:
    for row in found["ranks"]["rows"]:
        axes.plot([0, 1], [row["base_rank"], row["sft_rank"]], "o-", markersize=4)
        axes.annotate(row["checkpoint"], (1, row["sft_rank"]), xytext=(6, -3), textcoords="offset points", fontsize=8)
    axes.set(title="Ranks before and after SFT (1 is best)", xlim=(-0.2, 1.4))
    axes.set_xticks([0, 1], ["base", "after SFT"])
    axes.invert_yaxis()


def _learning(axes: Any, found: Mapping[str, Any]) -> None:
    """Thin lines with hollow markers are what was measured, straight ones the fits (R801-4.11)."""
    steps = list(by_step(found["learnability"]))
    for number, step in enumerate(dict.fromkeys([steps[0], steps[-1]])):
        each, colour = found["learnability"][step], f"C{number}"
        means = np.array(each["scores"]).mean(axis=0)
        axes.plot(each["budgets"], means, "o-", color=colour, linewidth=0.8, markerfacecolor="none")
        if each["fit"] is None:
            continue
        band = np.array([row for row in each["fit"]["band"] if row[0] <= each["budgets"][-1]])
        axes.plot(band[:, 0], band[:, 1], color=colour, label=f"step {step}")
        axes.fill_between(band[:, 0], band[:, 2], band[:, 3], color=colour, alpha=0.15)
    axes.set(title="Learnability (experimental within a run)", xlabel="SFT steps", ylabel="points", xscale="log")
    axes.legend(fontsize=8)
