"""The line that the training prints to its console. Nothing is measured here."""

from __future__ import annotations

from collections.abc import Mapping


def number(values: Mapping[str, float], name: str) -> str:
    """One value, or a dash when it was not measured at this step."""
    value = values.get(name)
    if value is None:
        return "-"

    return f"{value:.3f}"


def log_line(step: int, values: Mapping[str, float]) -> str:
    """One line for one step."""
    loss = number(values, "lm_loss")
    vio = number(values, "max_vio")

    speed = values.get("tokens_per_second", 0.0)
    parts = [f"step {step}", f"lm_loss {loss}", f"max_vio {vio}"]

    parts.append(f"{speed:.0f} tokens/s")
    return "  ".join(parts)
