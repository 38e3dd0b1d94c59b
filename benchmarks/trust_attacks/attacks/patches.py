"""Patches of code, configuration and data that carry their own diff: other contents, other files, other checks."""

from __future__ import annotations

import copy
import sys
from typing import Any

from benchmarks.trust_attacks.kit import CONFIG_DIFF, PASSES, STAGE_DIFF, Kit, change
from benchmarks.trust_attacks.world import RUN
from context_store.records import EffectRequest
from contracts.enums import EffectKind, EffectState

_CODE, _CONFIG, _DATA = EffectKind.PATCH_CODE, EffectKind.PATCH_CONFIG, EffectKind.PATCH_DATA
_EVIL = change("recipe.py", "SCALE = 3.0", "SCALE = 9.0")
_NEW = "new file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{line}\n"


def _new(path: str, line: str = "x", mode: str = "100644") -> str:
    return f"diff --git a/{path} b/{path}\n" + _NEW.format(path=path, line=line, mode=mode)


_TRAP = "import pathlib; pathlib.Path('@outside/evil').touch()"
_OTHER_THAN_APPROVED: dict[str, tuple[EffectKind, tuple[str, ...], Any]] = {
    "code: another diff": (_CODE, ("code", "diff"), _EVIL),
    "config: another diff": (_CONFIG, ("code", "diff"), CONFIG_DIFF.replace("0.01", "9.9")),
    "config: one file more": (_CONFIG, ("code", "diff"), CONFIG_DIFF + _EVIL),
    "config: no diff": (_CONFIG, ("code", "diff"), ""),
    "config: the diff with an end of line more": (_CONFIG, ("code", "diff"), f"{CONFIG_DIFF}\n"),
    "config: another file": (_CONFIG, ("file",), "recipe.py"),
    "config: another branch": (_CONFIG, ("branch",), "lathe/evil"),
    "config: another base": (_CONFIG, ("code", "base"), "@good"),
    "config: a commit taken back too": (_CONFIG, ("code", "revert"), ["@bad"]),
    "data: another check": (_DATA, ("check",), [sys.executable, "-c", _TRAP]),
    "data: one argument more": (_DATA, ("check",), [*PASSES, "@outside/evil"]),
    "data: more files": (_DATA, ("files",), ["stages", "recipe.py"]),
    "data: another stage": (_DATA, ("stage",), "other"),
    "data: more time for the check": (_DATA, ("check_timeout_s",), 60_000.0),
    "data: another diff": (_DATA, ("code", "diff"), STAGE_DIFF.replace("0.8", "0.0")),
}
_UNSEEN = {f"{kind}: a diff that nobody saw": kind for kind in (_CODE, _CONFIG, _DATA, EffectKind.START_RUN)}
_LEADS_OUT = {
    "out of the project": _new("../evil"),
    "by an absolute path": _new("@outside/evil"),
    "into hooks": _new(".git/hooks/post-checkout", mode="100755"),
    "into git's configuration": _new(".git/config"),
    "into git's configuration in capitals": _new(".GIT/config"),
    "a link": _new("link", "/etc", "120000"),
    "a submodule": _new("sub", "Subproject commit " + "1" * 40, "160000"),
    "no diff": "please set the learning rate to 9\n",
    "of another state": CONFIG_DIFF.replace("0.1\n", "0.7\n"),
}
_WRONG_FILES: dict[str, tuple[EffectKind, str, dict[str, Any]]] = {
    "config: two files": (_CONFIG, CONFIG_DIFF + _EVIL, {}),
    "config: that is code": (_CONFIG, _EVIL, {"file": "recipe.py"}),
    "config: that runs code": (
        _CONFIG, CONFIG_DIFF.replace("lr: 0.01", f'lr: !!python/object/apply:exec ["{_TRAP}"]'), {}),
    "config: by a way around": (_CONFIG, CONFIG_DIFF, {"file": "stages/../config.yaml"}),
    "data: a file of no stage": (_DATA, STAGE_DIFF + _EVIL, {}),
    "data: everything is the stage": (_DATA, _EVIL, {"files": ["."]}),
    "data: the root is the stage": (_DATA, _EVIL, {"files": ["/"]}),
    "data: by a way around": (_DATA, _EVIL, {"files": ["stages/.."]}),
    "data: a check that fails": (_DATA, STAGE_DIFF, {"check": [sys.executable, "-c", "raise SystemExit(1)"]}),
    "data: a check that never ends": (
        _DATA, STAGE_DIFF, {"check": [sys.executable, "-c", "import time; time.sleep(60)"], "check_timeout_s": 0.2}),
    "data: a shell as check": (_DATA, STAGE_DIFF, {"check": ["true; touch @outside/evil"]}),
    "data: no check": (_DATA, STAGE_DIFF, {"check": []}),
}  # fmt: skip
VARIANTS: dict[str, Any] = {
    **{name: ("other", what) for name, what in _OTHER_THAN_APPROVED.items()},
    **{name: ("unseen", kind) for name, kind in _UNSEEN.items()},
    **{f"approved, and leads {name}": ("out", diff) for name, diff in _LEADS_OUT.items()},
    **{name: ("files", what) for name, what in _WRONG_FILES.items()},
    **{f"unapproved {kind}": ("unapproved", kind) for kind in (_CONFIG, _DATA)},
    "a re-run of what nobody committed": ("re-run", None),
    "edited after approval": ("edit", None),
    "under an approval for the other kind": ("kind", None),
}


def control(kit: Kit) -> bool:
    return kit.honest(_CONFIG) and kit.honest(_DATA)


def attack(kit: Kit, variant: tuple[str, Any]) -> object:
    how, what = variant
    match how:
        case "other":
            _another_than_approved(kit, *what)
        case "unseen":
            _unseen(kit, what)
        case "out":
            _careless(kit, _CODE, what.replace("@outside", str(kit.world.outside)), shown=None)
        case "files":
            kind, diff, fields = what
            _careless(kit, kind, _placed(kit, diff), shown=None, **_placed(kit, fields))
        case "unapproved":
            kit.request(kit.propose(what))
        case "re-run":
            _re_run(kit)
        case "edit":
            return _edit(kit)
        case _:
            proposal = kit.propose(_DATA)
            kit.careless(proposal)
            kit.request(proposal, kind=_CODE, payload={**proposal.payload, "kind": "patch_code"})
    return None


def _placed(kit: Kit, value: Any) -> Any:
    """With this world's names in it."""
    small = kit.world.small
    names = {"@good": small.good, "@bad": small.bad, "@outside": str(kit.world.outside)}
    match value:
        case str():
            for name, meant in names.items():
                value = value.replace(name, meant)
            return value
        case list():
            return [_placed(kit, each) for each in value]
        case dict():
            return {name: _placed(kit, each) for name, each in value.items()}
    return value


def _another_than_approved(kit: Kit, kind: EffectKind, path: tuple[str, ...], value: Any) -> None:
    proposal = kit.propose(kind)
    kit.careless(proposal)
    payload = copy.deepcopy(dict(proposal.payload))
    place = payload
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = _placed(kit, value)
    kit.request(proposal, payload=payload)


def _unseen(kit: Kit, kind: EffectKind) -> None:
    """The reviewer sees a harmless diff; the payload has another one."""
    harmless = CONFIG_DIFF if kind is _CONFIG else STAGE_DIFF
    _careless(kit, kind, harmless.replace("0.01", "9.9").replace("0.8", "0.0"), shown=harmless)


def _careless(kit: Kit, kind: EffectKind, diff: str, shown: str | None, **fields: Any) -> None:
    """Approved with the diff `shown` (None: the very text in the payload), and carried out if anything lets it."""
    payload = dict(kit.new(kind).payload)
    payload["code"] = {"base": kit.world.small.bad, "revert": [], "pick": [], "diff": diff}
    seen = diff if shown is None else kit.diff({"base": kit.world.small.bad, "diff": shown})
    proposal = kit.propose(kind, payload={**payload, **fields}, diff=seen)
    kit.careless(proposal)
    kit.request(proposal)


def _re_run(kit: Kit) -> None:
    """A re-run needs no approval, so it may run only what somebody committed."""
    code = {"base": kit.world.small.bad, "revert": [], "pick": [], "diff": _EVIL}
    payload = {**kit.new(EffectKind.START_RUN).payload, "code": code, "source_run_id": RUN, "max_step": 3}
    kit.store.effects.request(
        EffectRequest(
            key=f"{kit.case_id}:re-run", kind=EffectKind.DIAGNOSTIC_RUN, payload=payload,
            investigation_id=kit.case_id, actor="loop:debug",
        )
    )  # fmt: skip


def _edit(kit: Kit) -> object:
    """What was approved is put in order over HTTP with another diff; the old approval may not carry it."""
    proposal = kit.propose(_CONFIG)
    kit.careless(proposal)
    code = {"base": kit.world.small.bad, "diff": CONFIG_DIFF.replace("0.01", "9.9")}
    body = {"bound_hash": proposal.bound_hash, "comment": "larger", "changes": {"code": code}}
    answer = kit.decide(proposal.id, "edit", body)
    key = kit.request(proposal, payload={**proposal.payload, "code": {**proposal.payload["code"], **code}})
    kit.settle()
    return answer.is_success or kit.store.effects.get(key).state is EffectState.DONE
