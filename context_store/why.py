"""Why do we believe this: everything an object rests on, down to raw slices, in one recursive query."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from context_store.database import Database, driver
from context_store.why_links import KINDS, MAX_LINKS, links_sql, owner_sql, title_sql
from contracts.errors import NotFound, UserInputError

MAX_NODES = 500


@dataclass(frozen=True, kw_only=True)
class Node:
    """One object. `title` None: something refers to it, but it is not stored. `raw`: here an explanation may end.

    `owner` "": nobody answers for it (yet).
    """

    kind: str
    id: str
    title: str | None
    owner: str
    raw: bool

    @property
    def ref(self) -> str:
        """As an evidence reference is written."""
        return f"{self.kind}:{quote(self.id, safe=':/.')}"


@dataclass(frozen=True, kw_only=True)
class Link:
    """`nodes[source]` rests in this `role` on `nodes[target]`, or on the `slice` of it ("": the whole)."""

    source: int
    role: str
    target: int
    slice: str


@dataclass(frozen=True, kw_only=True)
class Why:
    """`nodes[0]` is what was asked about; nearer ones come first. `truncated`: there is more than was asked for."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    truncated: bool

    @property
    def raw_slices(self) -> tuple[tuple[Node, str], ...]:
        """The points, lines, fields, logs and outputs it comes down to."""
        found = {(link.target, link.slice): None for link in self.links if self.nodes[link.target].raw}
        return tuple((self.nodes[target], part) for target, part in found)

    @property
    def missing(self) -> tuple[Node, ...]:
        """What something refers to and the store does not have."""
        return tuple(node for node in self.nodes if node.title is None)


class WhyQuestions:
    """`store.why`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, kind: str, id: str, max_nodes: int = MAX_NODES) -> Why:  # noqa: A002 - the word for it
        """Everything the object `kind:id` rests on, nearest first, in one query: `store.why.of("verdict", "12")`.

        `kind` is one of context_store.why_links.KINDS, `id` as in an evidence reference, without percent-encoding: the
        number of a verdict, anomaly, event, negative, score, approval, policy or ledger entry; the id of a run,
        investigation, proposal, experiment, subset, document, pipeline or benchmark; RUN/SERIES, RUN/FIELD, CASE/KEY
        of a suspect or diagnostic; RUN/SEGMENT/STEP of a checkpoint; HASH of a commit; HASH12/PATH of a hunk.
        Raises UserInputError for an unknown kind, NotFound when the object is not stored.
        """
        if kind not in KINDS:
            raise UserInputError(f"'{kind}' is no kind of object", remedy="one of: " + ", ".join(sorted(KINDS)))
        with self._database.snapshot() as connection:
            for setting in (
                "jit = off",
                "plan_cache_mode = force_generic_plan",
            ):  # planning takes longer than the answer
                connection.execute(sa.text(f"SET LOCAL {setting}"))
            parameters = {"kind": kind, "id": id, "max": max_nodes}
            rows = driver(connection).execute(_query(), parameters, prepare=True).fetchall()
        why = _assembled(rows, max_nodes)
        if why.nodes[0].title is None:
            raise NotFound(f"no {kind} '{id}'", remedy="an evidence reference names it: KIND:ID")
        return why


@cache
def _query() -> str:
    """`node`: all objects that can be reached, each once. `kept`: the nearest of them, numbered."""
    links = links_sql()
    return f"""
        WITH RECURSIVE node (kind, id) AS (
            SELECT %(kind)s::text, %(id)s::text
            UNION
            SELECT link.kind, link.id FROM node n CROSS JOIN LATERAL ({links}) AS link (role, kind, id, slice)
        ), kept AS MATERIALIZED (
            SELECT kind, id, row_number() OVER () AS place FROM (SELECT * FROM node LIMIT %(max)s + 1) AS nearest
        ), told AS MATERIALIZED (
            SELECT n.place, n.kind, n.id, {title_sql()} AS title, {owner_sql()} AS owner FROM kept n
        )
        SELECT n.kind, n.id, n.title, n.owner, link.role, link.kind, link.id, link.slice
        FROM told n LEFT JOIN LATERAL ({links}) AS link (role, kind, id, slice) ON TRUE ORDER BY n.place
    """  # noqa: S608 - put together from constants


def _assembled(rows: list[tuple[Any, ...]], max_nodes: int) -> Why:
    places: dict[tuple[str, str], int] = {}
    nodes: list[Node] = []
    for kind, node_id, title, owner, *_ in rows:
        if (kind, node_id) not in places and len(nodes) < max_nodes:
            places[kind, node_id] = len(nodes)
            raw = kind in KINDS and KINDS[kind].raw
            nodes.append(Node(kind=kind, id=node_id, title=title, owner=owner or "", raw=raw))
    links: dict[Link, None] = {}
    of_one_role = Counter((kind, node_id, role) for kind, node_id, _, _, role, *_ in rows)
    truncated = max(of_one_role.values()) > MAX_LINKS
    for kind, node_id, _, _, role, to_kind, to_id, part in rows:
        source, target = places.get((kind, node_id)), places.get((to_kind, to_id))
        if source is None or target is None:
            truncated |= role is not None
        else:
            links[Link(source=source, role=role, target=target, slice=part or "")] = None
    return Why(nodes=tuple(nodes), links=tuple(links), truncated=truncated)
