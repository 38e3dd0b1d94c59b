"""Deep links: one address for every object, and where an evidence reference leads. `/open?ref=KIND:ID` finds any."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, unquote, urlencode


def investigation(investigation_id: str) -> str:
    return "/?" + urlencode({"investigation": investigation_id})


def run(run_id: str, *, series: str = "", lo: str = "", hi: str = "") -> str:
    chosen = {"run": run_id, "series": series, "lo": lo, "hi": hi}
    return "/run?" + urlencode({key: value for key, value in chosen.items() if value})


def proposal(proposal_id: str) -> str:
    return "/approvals?" + urlencode({"proposal": proposal_id})


def thread(thread_id: str) -> str:
    return "/chat?" + urlencode({"thread": thread_id})


def ask(*, run_id: str = "", investigation_id: str = "") -> str:
    """Where a question about a run or a case is asked."""
    return "/chat?" + urlencode({"run": run_id} if run_id else {"investigation": investigation_id})


def compare(run_ids: Sequence[str]) -> str:
    return "/compare?" + urlencode({"runs": ",".join(run_ids)})


def timeline(*, run_id: str = "", project: str = "") -> str:
    return "/timeline?" + urlencode({"run": run_id} if run_id else {"project": project})


def loop(name: str, *, case_id: str = "") -> str:
    return "/loops?" + urlencode({"loop": name, "case": case_id} if case_id else {"loop": name})


def classifier(case_id: str) -> str:
    return "/classifiers?" + urlencode({"case": case_id})


def anything(reference: str) -> str:
    """The page that finds every object by its reference."""
    return "/open?" + urlencode({"ref": reference})


def own_page(reference: str) -> str:
    """Address of the page that is about the object itself; "" where only `anything` shows it."""
    address = evidence(reference)[1]
    return "" if address.startswith("/open?") else address


def evidence(reference: str) -> tuple[str, str]:
    """(words, address) of a reference `kind:id#slice`."""
    kind, _, rest = reference.partition(":")
    target, _, part = rest.partition("#")
    if kind == "series":
        run_id, _, name = target.partition("/")
        lo, _, hi = part.partition("..")
        steps = f", steps {lo}–{hi}" if hi else ""
        return f"{unquote(name)}{steps}", run(run_id, series=unquote(name), lo=lo, hi=hi)
    if kind in ("run", "checkpoint", "config"):
        words = f"{kind} {target}" if kind != "run" else target
        return words, run(target.partition("/")[0])
    if kind == "hunk":
        commit, _, path = target.partition("/")
        lines = f":{part.replace('..', '–')}" if part else ""
        return f"{commit[:7]} {unquote(path)}{lines}", anything(reference)
    if kind == "investigation":
        return f"case {target}", investigation(target)
    if kind in ("suspect", "diagnostic"):
        case, _, key = target.partition("/")
        return f"{kind} {unquote(key)[:24]}", investigation(unquote(case))
    if kind == "proposal":
        return f"proposal {target[:12]}", proposal(target)
    if kind == "thread":
        return f"thread {target[:12]}", thread(target)
    return f"{kind} {target[:12]}", anything(reference)


def anchor(name: str) -> str:
    return "#" + quote(name)
