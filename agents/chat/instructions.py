"""Orders that a person gives a running loop in chat: recognised by form, in the person's own words only.

`test suspect 2 first`, `exclude suspect optim.router.lr`, `take back suspect 2`, `stop`, `go on`; and to memory,
`remember eval/seeds: five seeds`, `forget eval/seeds: no evaluation any more`, and `confirm eval/seeds`, which makes an
agent's note the person's own entry. What a model writes and what stands in stored text never comes this way, so neither
can steer a loop or say what people hold to be true.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from agents import evidence, guidance
from agents.chat.answer import Answer, from_rows, unknown
from agents.chat.places import ChatContext
from agents.guidance import Word
from agents.tools.matching import best
from agents.tools.memory import NOTES, RESERVED, memory_row
from agents.tools.protocol import row
from context_store import Store
from context_store.records import Investigation, Suspect
from contracts.enums import InvestigationState, MemoryKind

_FORMS = (
    (Word.FIRST, r"(?:test|try|check|examine|start with) (?:the )?(?:suspect )?(.+?) (?:first|next)"),
    (Word.EXCLUDE, r"(?:exclude|leave out|ignore|skip|set aside) (?:the )?(?:suspect )?(.+)"),
    (Word.INCLUDE, r"(?:include|take back|no longer exclude) (?:the )?(?:suspect )?(.+)"),
    (Word.STOP, r"stop(?: (?:it|here|the (?:search|loop|case|investigation)|investigating))?"),
    (Word.GO_ON, r"(?:go on|continue|carry on)(?: with the (?:search|loop|case|investigation))?"),
)
_COMPILED = tuple(
    (word, re.compile(rf"\s*(?:please )?{form}(?: please)?\s*[.!]*\s*", re.IGNORECASE)) for word, form in _FORMS
)
_MEMORY = re.compile(
    r"\s*(?P<what>remember|forget) (?P<key>[a-z0-9][a-z0-9_./-]{0,80}):\s*(?P<text>\S.*)", re.IGNORECASE | re.DOTALL
)
_CONFIRM = re.compile(r"\s*confirm (?P<key>[a-z0-9][a-z0-9_./-]{0,80})\s*[.!]*\s*", re.IGNORECASE)
_HAS_SUSPECTS = "debug"
_SAID = {
    Word.FIRST: "{title} is examined first from the next step on",
    Word.EXCLUDE: "{title} is examined after all others from the next step on; re-runs still decide",
    Word.INCLUDE: "{title} is examined in its usual place from the next step on",
    Word.STOP: "the loop concludes with what is known, after what is under way",
    Word.GO_ON: "the loop goes on",
}


class Instructions:
    """Writes guidance for the loop of the case that is meant."""

    def __init__(self, store: Store, actor: str, clock: Callable[[], float]) -> None:
        self._store = store
        self._actor = actor
        self._clock = clock

    def obey(self, text: str, context: ChatContext) -> Answer | None:
        """What becomes of the order; None when `text` is none. Raises NotFound for a context that is not there."""
        if (kept := self._remembered(text, context) or self._confirmed(text)) is not None:
            return kept
        word, about = recognise(text)
        if word is None:
            return None
        case = self._case(context)
        if case is None:
            return unknown("say it in the thread of a case that is being investigated")
        if case.state is not InvestigationState.OPEN:
            return unknown(f"the loop of case {case.id} is not searching any more: it is {case.state}")
        if about and case.loop != _HAS_SUSPECTS:
            return unknown(f"the {case.loop} loop has no suspects: it understands 'stop' and 'go on'")
        suspect = self._suspect(case, about) if about else None
        if about and suspect is None:
            known = ", ".join(f"{each.rank} {each.title}" for each in self._store.knowledge.suspects(case.id)[:8])
            return unknown(f"which suspect of case {case.id} is meant? There are: {known or 'none yet'}")
        key, title = (suspect.key, suspect.title) if suspect else ("", "")
        guidance.give(self._store, case.id, word, key, actor=self._actor, at=self._clock())
        refs = [evidence.case(case.id)]
        refs += [evidence.part_of_case("suspect", case.id, key)] if key else []
        return from_rows([row(_SAID[word].format(title=title), *refs)], "")

    def _remembered(self, text: str, context: ChatContext) -> Answer | None:
        """`remember KEY: TEXT` and `forget KEY: REASON`; what is remembered rests on the case or run of the thread."""
        match = _MEMORY.fullmatch(text)
        if match is None:
            return None
        memory, key, said = self._store.memory, match["key"], match["text"].strip()
        if match["what"].lower() == "forget":
            kept = memory.retire(key, said, author=self._actor, at=self._clock())
            return from_rows([row(f"nothing holds under '{key}' any more: {said}", *memory_row(kept).evidence)], "")
        if key.startswith(RESERVED):
            return unknown(f"keys that begin with '{key.partition('/')[0]}/' are kept for agents: choose another")
        refs = [evidence.case(context.investigation_id)] if context.investigation_id else []
        refs += [evidence.run(context.run_id)] if context.run_id else []
        if not refs:
            return unknown("say it in the thread of a case or a run: what is remembered names what it rests on")
        kind = MemoryKind.CONVENTION
        kept = memory.remember(key, said, kind=kind, evidence=refs, author=self._actor, at=self._clock())
        return from_rows([memory_row(kept)], "")

    def _confirmed(self, text: str) -> Answer | None:
        """`confirm KEY`: an agent's note becomes an entry of the person, which supersedes what they kept there."""
        match = _CONFIRM.fullmatch(text)
        if match is None:
            return None
        memory, key, at = self._store.memory, match["key"], self._clock()
        note = memory.holds(NOTES + key)
        if note is None:
            return unknown(f"no agent has noted anything under '{key}'")
        refs = (evidence.numbered("memory", note.id), *note.evidence)
        kept = memory.remember(key, note.text, kind=note.kind, evidence=refs, author=self._actor, at=at)
        memory.retire(NOTES + key, f"confirmed by {self._actor}", author=self._actor, at=at)
        return from_rows([memory_row(kept)], "")

    def _case(self, context: ChatContext) -> Investigation | None:
        """That of the page, or the only one that is searched for of the run, or of all."""
        knowledge = self._store.knowledge
        if context.investigation_id:
            return knowledge.investigation(context.investigation_id)
        going = knowledge.investigations(state=InvestigationState.OPEN, run_id=context.run_id or None)
        return going[0] if len(going) == 1 else None

    def _suspect(self, case: Investigation, about: str) -> Suspect | None:
        """By rank, key, hash, or the words of its title; None unless exactly one is meant."""
        known = self._store.knowledge.suspects(case.id)
        name = about.strip("\"'` ").lower()
        exact = [each for each in known if name in (str(each.rank), each.key.lower())]
        hashed = [each for each in known if len(name) >= 7 and each.key.lower().startswith(f"commit:{name}")]
        words = [] if name.isdigit() else best(about, known, lambda each: f"{each.key} {each.title}", limit=2)
        found = exact or hashed or words
        return found[0] if len(found) == 1 else None


def recognise(text: str) -> tuple[Word | None, str]:
    """The order and what it is about ("" where it is about no suspect); (None, "") when it is no order."""
    for word, form in _COMPILED:
        if match := form.fullmatch(text):
            return word, match[1] if match.groups() else ""
    return None, ""
