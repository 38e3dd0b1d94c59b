"""What a page says when there is nothing to show, or when something went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from ui.components.markup import escape
from ui.transport import ApiError


def show_empty(title: str, next_step: str) -> None:
    """An empty place teaches the next step."""
    st.html(f'<div class="lt-empty"><strong>{escape(title)}</strong><p>{_with_code(next_step)}</p></div>')


def show_error(error: ApiError) -> None:
    st.html(
        f'<div class="lt-error" role="alert"><strong>{escape(error.message)}</strong>'
        f"<p>What you can do: {_with_code(error.remedy)}</p></div>"
    )


def _with_code(text: str) -> str:
    """Escaped, with what stands in back quotes set as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


@contextmanager
def errors_shown() -> Iterator[None]:
    """Show a refused or unanswered request where the part of the page would be; the rest of it stays usable."""
    try:
        yield
    except ApiError as error:
        show_error(error)
