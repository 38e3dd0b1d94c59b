"""The small model of the demo: about 0.5 M parameters, tens of milliseconds a step on one CPU thread."""

from __future__ import annotations

from trainer.recipe import Recipe


def recipe() -> Recipe:
    return Recipe()
