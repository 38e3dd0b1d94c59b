"""What came of an approved proposal, as the executor reports it."""

from __future__ import annotations

from collections.abc import Sequence

from ui import links
from ui.components import chips
from ui.components.markup import escape, words
from ui.records import Effect, Proposal


def of(proposal: Proposal, effects: Sequence[Effect]) -> str:
    """HTML: the last effect that was carried out for it; "" where there is nothing to tell."""
    own = [effect for effect in effects if effect.proposal_id == proposal.id]
    if own:
        return _told(own[-1]) + _held(proposal)
    if proposal.state == "approved":
        return "<span class='lt-muted'>waits for a worker: <code>lathe up</code> starts one</span>"
    if proposal.replaced_by:
        address = escape(links.proposal(proposal.replaced_by))
        return f'<a href="{address}" target="_self">edited: the proposal in its place</a>'
    return ""


def _told(effect: Effect) -> str:
    said = f"<div>{escape(effect.message)} {escape(effect.remedy)}</div>" if effect.message else ""
    return f"{chips.state(effect.state)} <span class='lt-muted'>{_result(effect)}</span>{said}"


def _result(effect: Effect) -> str:
    """Where it can be looked at, and how far it came."""
    found, facts = effect.result, []
    if run_id := found.get("run_id"):
        facts.append(f'run <a href="{escape(links.run(str(run_id)))}" target="_self">{escape(run_id)}</a>')
    facts += [f"{escape(words(name))} {escape(found[name])}" for name in _FACTS if found.get(name) not in (None, "")]
    return ", ".join(facts)


_FACTS = ("segment", "last_step", "branch")


def _held(proposal: Proposal) -> str:
    if proposal.investigation_id is None:
        return ""
    address = escape(links.investigation(proposal.investigation_id))
    return f'<div><a href="{address}" target="_self">Did it hold? The case says so</a></div>'
