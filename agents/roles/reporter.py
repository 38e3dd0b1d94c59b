"""The case as Markdown and HTML for a reader who was not there: summary, plots, and the loop's own report.

Every line that cites something is looked up: a line that rests on an id the store does not have is removed, and the
share removed is said. The summary is a model's, checked claim by claim, or by rules the verdicts and the finding.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from agents.chat.answer import Statement, statements_of
from agents.llm import Door
from agents.roles.grounding import exists, rows_of_case
from agents.roles.opinion import Opinion, ask
from agents.roles.plots import Plot, plots_of_case
from agents.tools import Row
from agents.tools.knowledge import case_row, verdict_row
from context_store import Store
from contracts.errors import NotFound, UserInputError
from contracts.evidence import EvidenceRef

_CITED = re.compile(r"`([a-z_]+:[^`\s]+)`")
_STYLE = "body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}table{border-collapse:collapse}"
_STYLE += "td,th{border:1px solid #ccc;padding:.2rem .5rem}svg{max-width:100%;height:auto}pre{overflow:auto}"


@dataclass(frozen=True, kw_only=True)
class CaseReport:
    """`markdown` names the plots `PREFIX-1.svg`, ...; `html` holds them. `removed` of `claimed` claims are gone."""

    markdown: str
    html: str
    plots: tuple[Plot, ...]
    brain: str
    removed: int
    claimed: int

    @property
    def removed_share(self) -> float:
        """0..1."""
        return self.removed / self.claimed if self.claimed else 0.0


class Reporter:
    name = "reporter"
    order = (
        "Sum the case up for a colleague in three to eight sentences: what was seen and since when, what was found to "
        "be the cause and how that is known (with the verdict's scope), what was ruled out, what is proposed."
    )

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def look(self, case_id: str) -> Sequence[Row]:
        return rows_of_case(self._store, case_id, self._clock)

    def plain(self, case_id: str) -> Sequence[Statement]:
        knowledge = self._store.knowledge
        rows = [case_row(knowledge.investigation(case_id)), *map(verdict_row, knowledge.verdicts(case_id))]
        return statements_of(rows)

    def report(self, case_id: str, door: Door | None = None, *, prefix: str = "plot") -> CaseReport:
        """Raises NotFound without the case, or while it has no report yet."""
        if not (whole := self._store.knowledge.report(case_id)):
            raise NotFound(f"case {case_id} has no report yet", remedy="it is written when the loop concludes")
        opinion = ask(self, door, case_id)
        body, removed, claimed = grounded(self._store, whole)
        removed, claimed = removed + opinion.removed, claimed + (opinion.claimed or len(opinion.statements))
        share = f"{removed} of {claimed} claims were removed: they cite nothing, or nothing stored that says so."
        plots = plots_of_case(self._store, case_id)
        named = [f"![{_plain(each.title)}]({prefix}-{number}.svg)" for number, each in enumerate(plots, start=1)]
        head = [*_summary(opinion), share]
        return CaseReport(
            markdown="\n\n".join([*head, *named, body]),
            html=_page(case_id, "\n\n".join(head), plots, body),
            plots=tuple(plots),
            brain=opinion.brain,
            removed=removed,
            claimed=claimed,
        )


def grounded(store: Store, text: str) -> tuple[str, int, int]:
    """(the text without lines that cite what does not exist, lines removed, lines that cite anything)."""
    kept, removed, claimed = [], 0, 0
    known: dict[str, bool] = {}
    for line in text.splitlines():
        cited = _CITED.findall(line)
        refs = [each for each in cited if _is_reference(each)]
        claimed += bool(refs)
        known |= {each: exists(store, EvidenceRef.parse(each)) for each in refs if each not in known}
        if all(known[each] for each in refs):
            kept.append(line)
        else:
            removed += 1
    return "\n".join(kept), removed, claimed


def _is_reference(text: str) -> bool:
    try:
        EvidenceRef.parse(text)
    except UserInputError:
        return False
    return True


def _summary(opinion: Opinion) -> list[str]:
    lines = [f"- {each.text} ({', '.join(f'`{ref}`' for ref in each.evidence[:4])})" for each in opinion.statements]
    return [f"## In short\n\nBy {opinion.brain}.", "\n".join(lines)]


def _page(case_id: str, head: str, plots: Sequence[Plot], body: str) -> str:
    """Self-contained; text of the store cannot bring markup or scripts of its own."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    figures = "\n".join(f"<figure>{each.svg}<figcaption>{escape(each.title)}</figcaption></figure>" for each in plots)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(case_id)}</title>'
        f"<style>{_STYLE}</style></head><body>\n{markdown.render(head)}\n{figures}\n{markdown.render(body)}</body></html>\n"
    )


def _plain(text: str) -> str:
    return text.replace("[", "(").replace("]", ")")
