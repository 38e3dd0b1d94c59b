"""What requests and answers are made of: the base of all models, and the one way to page through what can grow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, TypeVar

from fastapi import Depends, Query
from pydantic import BaseModel, ConfigDict, StringConstraints

from contracts.errors import UserInputError

T = TypeVar("T")
MAX_LIMIT = 1000
MAX_ID = 2**63 - 1
Text = Annotated[str, StringConstraints(max_length=10_000)]
Reason = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]


class Body(BaseModel):
    """Of a request, or of an answer: then it describes what `Answer` writes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Page(Body):
    """A part of a list. `next` is what to give as `after` for what follows; null at the end."""

    next: str | None


@dataclass(frozen=True, kw_only=True)
class Paging:
    """Which part is asked for. `after` None: the beginning."""

    limit: int
    after: str | None


async def _paging(
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="at most so many")] = 200,
    after: Annotated[
        str | None, Query(max_length=500, description="`next` of the page before; without it: from the beginning")
    ] = None,
) -> Paging:
    return Paging(limit=limit, after=after)


PagingDep = Annotated[Paging, Depends(_paging)]


def page(items: Iterable[T], wish: Paging, key: Callable[[T], object]) -> tuple[list[T], str | None]:
    """The wished part of a whole list and `next`. Raises UserInputError when nothing has the key `after`."""
    rest = iter(items)
    if wish.after is not None and not any(str(key(each)) == wish.after for each in rest):
        raise UserInputError(f"nothing here is called '{wish.after}'", remedy="begin again without `after`")
    return first(list(islice(rest, wish.limit + 1)), wish, key)


def first(found: list[T], wish: Paging, key: Callable[[T], object]) -> tuple[list[T], str | None]:
    """As `page`, of a list that begins after `after` and holds one more than `limit` where there is more."""
    kept = found[: wish.limit]
    return kept, str(key(kept[-1])) if len(found) > wish.limit else None


def number_after(wish: Paging) -> int | None:
    """`after` where ids are numbers. Raises UserInputError."""
    if wish.after is None:
        return None
    if not wish.after.isascii() or not wish.after.isdigit() or int(wish.after) > MAX_ID:
        raise UserInputError(f"'{wish.after}' is no `next` of this list", remedy="begin again without `after`")
    return int(wish.after)
