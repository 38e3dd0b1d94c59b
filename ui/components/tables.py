"""Tables in our own HTML: what stands in a cell is escaped by whoever makes the cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[str], *, look: str = "") -> str:
    """`rows`: whole `<tr>` elements."""
    head = "".join(f"<th>{name}</th>" for name in heads)
    return (
        f'<div class="lt-scroll"><table class="lt-table {look}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def row(cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
