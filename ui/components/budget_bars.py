"""Budgets as a table of bars; a currency that allows nothing and was not used is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ui.components.markup import escape
from ui.components.tables import row, table
from ui.records import Budget

_CURRENCIES = {"cpu_s": "CPU s", "reruns": "re-runs", "tokens": "tokens", "usd": "USD", "wall_s": "s of waiting"}


def render(budgets: Sequence[Budget]) -> str:
    """Open ones first."""
    ordered = sorted(budgets, key=lambda budget: budget.closed)
    return table(("Budget", "Used", "State"), [_row(budget) for budget in ordered])


def brief(budgets: Sequence[Budget]) -> str:
    """Only the bars, each under its budget's name."""
    return "".join(f"<div><small>{escape(budget.id)}</small>{''.join(_bars(budget))}</div>" for budget in budgets)


def _row(budget: Budget) -> str:
    name = f"<code>{escape(budget.id)}</code>"
    if budget.parent_id:
        name += f"<div class='lt-muted'>a part of {escape(budget.parent_id)}</div>"
    return row([name, "".join(_bars(budget)) or "nothing", "closed" if budget.closed else "open"])


def _bars(budget: Budget) -> Iterator[str]:
    for name, unit in _CURRENCIES.items():
        limit, used = float(getattr(budget, name)), float(getattr(budget, f"{name}_used"))
        if limit or used:
            share = min(1.0, used / limit) if limit else 1.0
            yield (
                f'<div class="lt-used"><span>{used:,.4g} of {limit:,.6g} {unit}</span>'
                f'<div class="lt-bar"><i style="width:{share * 100:.0f}%"></i></div></div>'
            )
