"""What exactly an approval sets going: the act in a sentence, and every argument that is bound, in words."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping

from ui import links
from ui.components.markup import escape, words
from ui.records import Proposal

_ACTS = {
    "start_run": "A new training starts.",
    "stop_run": "The training is stopped.",
    "pause_run": "The training is paused.",
    "unpause_run": "The paused training goes on.",
    "checkpoint_run": "The training writes a checkpoint now.",
    "resume_with_patch": "The training goes on from its checkpoint with the changed code and configuration, as a new "
    "segment; what still trains it is stopped first.",
    "patch_code": "The changed code is committed on a branch of its own; no training changes by that.",
    "patch_config": "The changed configuration file is committed on a branch of its own; no training changes by that.",
    "patch_data": "The changed stage is checked by the command below and committed on a branch of its own.",
    "deploy_classifier": "The name points at the approved version; what is deployed now stays on disk.",
    "promote_scaffold": "The scaffold's ref moves to the candidate commit.",
    "open_seal": "The first and the last scaffold of the run are run on its sealed tasks; that is done once.",
    "notify": "The text is sent to the address.",
    "undo": "What was carried out before is taken back.",
    "next_stage": "The loop passes on to its next stage.",
}
_NAMES = {
    "run_id": "run", "project_id": "project", "start_step": "from step", "max_step": "up to step", "code base": "code",
    "code revert": "without the commit", "code pick": "with the commit", "overrides": "configuration set to",
    "start_checkpoint": "from checkpoint", "watch_until": "watched to step", "source_segment": "all else as in segment",
}  # fmt: skip
_FOR_THE_MACHINE = ("project_id", "entry", "seed", "source_segment", "start_checkpoint")  # bound, but read last
_COMMAND = "check"  # run as it stands, word by word
_SHOWN_AS_DIFF = "code diff"
_RUN = "run_id"


def render(proposal: Proposal) -> str:
    """HTML; the diff stands below it, and nothing else that is bound is left out."""
    act = _ACTS.get(proposal.kind, "")
    found = sorted(arguments(proposal.payload), key=lambda each: each[0] in _FOR_THE_MACHINE)
    facts = "".join(
        f"<span><span class='lt-muted'>{escape(_NAMES.get(name, words(name)))}</span> {_value(name, value)}</span>"
        for name, value in found
    )
    return (
        f"{escape(act)} <span class='lt-muted'>({escape(words(proposal.kind))})</span>"
        f'<div class="lt-facts lt-order">{facts}</div>'
    )


def arguments(payload: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Every argument that says something, those of a part under its name: `code base`."""
    for name, value in payload.items():
        if isinstance(value, Mapping) and name != "overrides":
            found = ((f"{name} {key}", part) for key, part in arguments(value))
            yield from ((key, part) for key, part in found if key != _SHOWN_AS_DIFF)
        elif value not in (None, "", [], {}):
            yield name, value


def _value(name: str, value: object) -> str:
    if name == _COMMAND and isinstance(value, list):
        return f"<code>{escape(shlex.join(map(str, value)))}</code>"
    if name == _RUN:
        return f'<a href="{escape(links.run(str(value)))}" target="_self">{escape(value)}</a>'
    if isinstance(value, Mapping):
        return ", ".join(f"<code>{escape(key)} = {escape(json.dumps(each))}</code>" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(f"<code>{escape(each)}</code>" for each in value)
    return f"<code>{escape(value)}</code>"
