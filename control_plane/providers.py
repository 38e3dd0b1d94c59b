"""Which text goes to which provider of models, and how much went there so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True, kw_only=True)
class _Use:
    """`key`: `chat`, or the loop whose cases' agents it is about."""

    key: str
    purpose: str
    text: str


_USES = (
    _Use(
        key="chat",
        purpose="chat",
        text="your questions and the thread so far; rows that the tools return: names and values of series, titles of "
        "the timeline, configuration fields, commit subjects and changed lines, case files, negative results, memory, "
        "single stored samples that are asked for by id",
    ),
    _Use(
        key="debug",
        purpose="hypothesis, critic and reporter of a case",
        text="the case file, its re-runs, changed lines of the first suspects, negative results, memory",
    ),
    _Use(
        key="classifier",
        purpose="labels of a classifier, where the model is one of its labellers",
        text="the description of the classes, and the whole text of each document that it labels or that tunes its "
        "prompt, as it stands in your file of documents",
    ),
    _Use(
        key="evolve",
        purpose="proposals of an evolution run, where it was begun with the model",
        text="all files of the scaffold that may be edited, what failed in its episodes, lessons of earlier rounds",
    ),
)
_SEARCHED = "titles and texts of everything that can be searched for, and the words that are searched"
NEVER = (
    "checkpoints and weights, access tokens, a project's files beyond changed lines and the scaffold that an evolution "
    "run edits, and training data beyond single samples and the documents that a model is asked to label; secrets are "
    "redacted when logs, configuration and samples are taken in, but not in documents to label and in scaffolds"
)


def flows(store: Store, mind: Mind) -> list[Flow]:
    """One for each use of models. Where no model is set, rules answer."""
    budgets = store.budgets.list()
    loops = {case.id: case.loop for case in store.knowledge.investigations()}
    found = []
    for use in _USES:
        tokens, usd = _used([each for each in budgets if _use_of(each.id, loops) == use.key])
        found.append(
            Flow(
                purpose=use.purpose,
                to=" then ".join(f"{each.name} at {_address(mind)}" for each in mind.models) or _NOBODY,
                text=use.text if mind.models else "nothing",
                leaves_machine=bool(mind.models) and not _is_here(mind.where),
                tokens=tokens,
                usd=usd,
            )
        )
    embeds = bool(mind.embedder)
    to = f"{mind.embedder} at {_address(mind)}" if embeds else "nobody: vectors are made here"
    leaves = embeds and not _is_here(mind.where)
    text = _SEARCHED if embeds else "nothing"
    tokens, usd = _used([each for each in budgets if _use_of(each.id, loops) == "embeddings"])
    return [*found, Flow(purpose="search", to=to, text=text, leaves_machine=leaves, tokens=tokens, usd=usd)]


def _use_of(budget_id: str, loops: Mapping[str, str]) -> str:
    """What a budget is for: the loop of its case, for agents; reports and loops without another use are the roles'."""
    kind, _, rest = budget_id.partition(":")
    if kind != "agents":
        return kind
    loop = loops.get(rest, "debug")
    return loop if any(use.key == loop for use in _USES) else "debug"


def _used(budgets: Sequence[BudgetState]) -> tuple[int, float]:
    """(tokens, US dollars) spent from them."""
    own = [each.used for each in budgets]
    return sum(each.tokens for each in own), sum(each.usd for each in own)


def _address(mind: Mind) -> str:
    """Without what a url may hold beside the host and path: it could be a secret."""
    if not mind.where:
        return "the provider's own address"
    parts = urlsplit(mind.where)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _is_here(where: str) -> bool:
    return urlsplit(where).hostname in _LOOPBACK
