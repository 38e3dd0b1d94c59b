"""Which text goes to which provider of models, and how much went there so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from context_store import Store
from context_store.records import BudgetState
from control_plane.chat import Mind

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_NOBODY = "nobody: no model is set"


@dataclass(frozen=True, kw_only=True)
class Flow:
    """`to`: provider and address. `text`: what is sent. `leaves_machine` False: it stays on this machine.

    `tokens`, `usd`: reserved or spent so far.
    """

    purpose: str
    to: str
    text: str
    leaves_machine: bool
    tokens: int
    usd: float


_TEXTS = {
    "chat": (
        "chat",
        "your questions and the thread so far; rows that the tools return: names and values of series, titles of the "
        "timeline, configuration fields, commit subjects and changed lines, case files, negative results, memory, "
        "single stored samples that are asked for by id",
    ),
    "agents": (
        "hypothesis, critic and reporter of a case",
        "the case file, its re-runs, changed lines of the first suspects, negative results, memory",
    ),
}
_SEARCHED = "titles and texts of everything that can be searched for, and the words that are searched"
NEVER = (
    "checkpoints and weights, training data beyond a single sample, whole files of a project, access tokens; secrets "
    "are redacted when logs, configuration and samples are taken in"
)


def flows(store: Store, mind: Mind) -> list[Flow]:
    """One for each use of models. Where no model is set, rules answer."""
    budgets = store.budgets.list()
    found = []
    for prefix, (purpose, text) in _TEXTS.items():
        tokens, usd = _used(budgets, prefix)
        found.append(
            Flow(
                purpose=purpose,
                to=" then ".join(f"{each.name} at {_address(mind)}" for each in mind.models) or _NOBODY,
                text=text if mind.models else "nothing",
                leaves_machine=bool(mind.models) and not _is_here(mind.where),
                tokens=tokens,
                usd=usd,
            )
        )
    embeds = bool(mind.embedder)
    to = f"{mind.embedder} at {_address(mind)}" if embeds else "nobody: vectors are made here"
    leaves = embeds and not _is_here(mind.where)
    text = _SEARCHED if embeds else "nothing"
    tokens, usd = _used(budgets, "embeddings")
    return [*found, Flow(purpose="search", to=to, text=text, leaves_machine=leaves, tokens=tokens, usd=usd)]


def _used(budgets: Sequence[BudgetState], prefix: str) -> tuple[int, float]:
    """(tokens, US dollars) spent from all budgets of a kind."""
    own = [each.used for each in budgets if each.id.startswith(f"{prefix}:")]
    return sum(each.tokens for each in own), sum(each.usd for each in own)


def _address(mind: Mind) -> str:
    """Without what a url may hold beside the host and path: it could be a secret."""
    if not mind.where:
        return "the provider's own address"
    parts = urlsplit(mind.where)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _is_here(where: str) -> bool:
    return urlsplit(where).hostname in _LOOPBACK
