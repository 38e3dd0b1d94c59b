"""Which text goes to which provider of models, and how much went there so far."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from context_store import Store
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
        "timeline, configuration fields, commit subjects and changed lines, case files, negative results, memory",
    ),
    "agents": (
        "hypothesis, critic and reporter of a case",
        "the case file, its re-runs, changed lines of the first suspects, negative results, memory",
    ),
}
_SEARCHED = "titles and texts of everything that can be searched for, and the words that are searched"
NEVER = (
    "checkpoints and weights, training data, whole files of a project, access tokens; secrets are redacted when logs "
    "and configuration are taken in"
)


def flows(store: Store, mind: Mind) -> list[Flow]:
    """One for each use of models; what an embedding model uses is not counted. Where no model is set, rules answer."""
    budgets = store.budgets.list()
    found = []
    for prefix, (purpose, text) in _TEXTS.items():
        own = [each.used for each in budgets if each.id.startswith(f"{prefix}:")]
        found.append(
            Flow(
                purpose=purpose,
                to=" then ".join(f"{each.name} at {_address(mind)}" for each in mind.models) or _NOBODY,
                text=text if mind.models else "nothing",
                leaves_machine=bool(mind.models) and not _is_here(mind.where),
                tokens=sum(each.tokens for each in own),
                usd=sum(each.usd for each in own),
            )
        )
    embeds = bool(mind.embedder)
    to = f"{mind.embedder} at {_address(mind)}" if embeds else "nobody: vectors are made here"
    leaves = embeds and not _is_here(mind.where)
    text = _SEARCHED if embeds else "nothing"
    return [*found, Flow(purpose="search", to=to, text=text, leaves_machine=leaves, tokens=0, usd=0.0)]


def _address(mind: Mind) -> str:
    """Without what a url may hold beside the host and path: it could be a secret."""
    if not mind.where:
        return "the provider's own address"
    parts = urlsplit(mind.where)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _is_here(where: str) -> bool:
    return urlsplit(where).hostname in _LOOPBACK
