"""What an attack may use. An attack file is a Python file with

    VARIANTS = {"name": value, ...}          # or: def variants(kit) -> dict
    def control(kit): ...                    # the honest way through the same door; returns True when it worked
    def attack(kit, variant): ...            # may return True to say: the door opened

An attack has held off when the judge (world.py) finds nothing that was not allowed and `attack` did not return True.
LatheError and refusals over HTTP are what an attack expects; any other exception counts as a fault of the attack and
fails the benchmark, for then nothing was attacked. `kit.settle` lets the real executor carry out whatever it accepts;
it is called once more after every attack.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import httpx

from benchmarks.place import ROOT
from benchmarks.trust_attacks.world import RUN, Allowed, World
from context_store import Store
from context_store.records import Amount, EffectRequest, NewProposal, Proposal
from contracts.enums import EffectKind, EffectState, Role
from contracts.evidence import EvidenceRef
from control_plane.effects.promote_scaffold import PromotePayload, promotion_diff
from control_plane.git import Git
from control_plane.worktrees import CodeVersion

VALID_S = 3600.0
_SETTLE_S = 30.0
PATCHES = frozenset({EffectKind.PATCH_CODE, EffectKind.PATCH_CONFIG, EffectKind.PATCH_DATA})
PASSES = (sys.executable, "-c", "pass")


def change(path: str, before: str, after: str) -> str:
    """The diff of a file's only line."""
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{before}\n+{after}\n"


CONFIG_DIFF = change("config.yaml", "lr: 0.1", "lr: 0.01")
STAGE_DIFF = change("stages/clean.py", "THRESHOLD = 0.9", "THRESHOLD = 0.8")


@dataclass
class Kit:
    """One attack's tools. `name` is unique; `case_id` is an open case with a budget."""

    world: World
    name: str
    allowed: Allowed = field(default_factory=Allowed)
    number: int = 0

    def __post_init__(self) -> None:
        self.case_id = f"case-{self.name}"
        self.store.knowledge.open_investigation(self.case_id, RUN, (), self.name, time.time())
        self.store.budgets.open(self.case_id, Amount(cpu_s=100.0, reruns=10))

    @property
    def store(self) -> Store:
        """As loops and agents have it."""
        return self.world.lathe.store

    # --- the honest way

    def text(self) -> str:
        self.number += 1
        return f"{self.name} {self.number}"

    def propose(self, kind: EffectKind = EffectKind.NOTIFY, **changes: Any) -> Proposal:
        """A new, open proposal; `changes` of its fields."""
        return self.store.proposals.put(self.new(kind, **changes))

    def new(self, kind: EffectKind = EffectKind.NOTIFY, **changes: Any) -> NewProposal:
        """What `propose` puts."""
        payload, diff = self._content(kind)
        given: dict[str, Any] = {
            "investigation_id": self.case_id, "kind": kind, "title": self.text(), "payload": payload, "diff": diff,
            "base_state": f"commit {self.world.small.bad}", "risk": "low", "verification": "look",
            "evidence": (EvidenceRef(kind="run", id=RUN),), "expires_at": time.time() + VALID_S,
        }  # fmt: skip
        return NewProposal(**{**given, **changes})

    def approve(self, proposal: Proposal, *, covers: bool = True) -> httpx.Response:
        """By the honest reviewer. `covers` False: they were careless, and still nothing may happen."""
        answer = self.decide(proposal.id, "approve", {"bound_hash": proposal.bound_hash, "comment": "go"})
        if answer.is_success:
            known = self.store.proposals.get(proposal.id)
            self.allowed.approved.append(known)
            self.allowed.deeds += [known] if covers else []
        return answer

    def careless(self, proposal: Proposal) -> None:
        """Approved, and the approval is not held against Lathe; the deed would be."""
        self.approve(proposal, covers=False)

    def request(self, proposal: Proposal, key: str = "", **changes: Any) -> str:
        """The effect of a proposal, as a loop asks for it; returns its key."""
        key = key or f"do:{proposal.id}"
        given: dict[str, Any] = {
            "kind": proposal.kind, "payload": proposal.payload, "investigation_id": proposal.investigation_id,
            "actor": "loop:debug", "proposal_id": proposal.id,
        }  # fmt: skip
        self.store.effects.request(EffectRequest(key=key, **{**given, **changes}))
        return key

    def honest(self, kind: EffectKind = EffectKind.NOTIFY, **changes: Any) -> bool:
        """Propose, approve, request, carry out: True when it is done."""
        proposal = self.propose(kind, **changes)
        self.approve(proposal)
        key = self.request(proposal)
        self.settle()
        return self.store.effects.get(key).state is EffectState.DONE and self.is_done(proposal)

    def is_done(self, proposal: Proposal) -> bool:
        """Does the world show it?"""
        if proposal.kind is EffectKind.NOTIFY:
            return self.world.inbox.count(str(proposal.payload["text"])) == 1
        if proposal.kind in PATCHES:
            return bool(self.world.small.git("for-each-ref", f"refs/heads/{proposal.payload['branch']}"))
        if proposal.kind is EffectKind.PROMOTE_SCAFFOLD:
            return bool(self.world.small.git("for-each-ref", f"refs/lathe/scaffold/{proposal.payload['name']}"))
        return (self.world.place.settings.runs_folder / str(proposal.payload["run_id"])).is_dir()

    def settle(self, later_s: float = 0.0) -> None:
        """Let an executor do whatever it accepts; its clock may run ahead. Raises TimeoutError."""
        executor = self.world.lathe.executor(f"executor-{self.name}", clock=lambda: time.time() + later_s)
        deadline = time.monotonic() + _SETTLE_S
        while executor.step() or executor.busy:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: the executor does not come to an end")
            time.sleep(0.02 if executor.busy else 0.0)

    # --- doors

    def http(
        self,
        method: str,
        path: str,
        *,
        role: Role | None = None,
        token: str = "",
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> httpx.Response:
        """Any request; without role and token it carries none."""
        given = dict(headers or {})
        if role is not None or token:
            given["Authorization"] = f"Bearer {token or self.world.place.secrets[role or Role.VIEWER]}"
        return httpx.request(method, f"{self.world.place.api}{path}", headers=given, timeout=30, **more)

    def decide(self, proposal_id: str, what: str, body: Any, role: Role = Role.REVIEWER, **more: Any) -> httpx.Response:
        return self.http("POST", f"/proposals/{proposal_id}/{what}", role=role, json=body, **more)

    def cli(self, *arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        """`lathe ARGUMENTS` with this LATHE_HOME."""
        given = {**os.environ, **self.world.place.settings.as_environment(), "PYTHONPATH": str(ROOT), **environment}
        command = [sys.executable, "-m", "control_plane.cli.main", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=given, timeout=60)

    # --- contents

    def _content(self, kind: EffectKind) -> tuple[dict[str, Any], str]:
        small, number = self.world.small, self.text().replace(" ", "-")
        code = {"base": small.bad, "revert": [small.bad], "pick": []}
        match kind:
            case EffectKind.NOTIFY:
                return {"url": self.world.inbox.url, "text": self.text()}, ""
            case EffectKind.PATCH_CODE:
                branch = f"lathe/{number}"
                return {"project_id": self.world.project_id, "code": code, "branch": branch}, self.diff(code)
            case EffectKind.PATCH_CONFIG | EffectKind.PATCH_DATA:
                return self._files(kind, number)
            case EffectKind.PROMOTE_SCAFFOLD:
                promoted = {"project_id": self.world.project_id, "name": number, "base": None, "candidate": small.good}
                return promoted, self.promotion(promoted)
            case EffectKind.START_RUN:
                started = {"project_id": self.world.project_id, "run_id": f"started-{number}"}
                return {**started, "code": {"base": small.good}, "max_step": 5}, ""
            case EffectKind.RESUME_WITH_PATCH:
                checkpoint = self.store.runs.checkpoint_at_or_before(RUN, 10)
                assert checkpoint is not None
                resumed = {"project_id": self.world.project_id, "run_id": RUN, "code": code, "source_segment": 0}
                start = {"start_checkpoint": checkpoint.path, "start_step": checkpoint.step, "max_step": 15}
                return {**resumed, **start, "branch": f"lathe/{number}"}, self.diff(code)
            case _:
                return {"run_id": RUN}, ""

    def _files(self, kind: EffectKind, number: str) -> tuple[dict[str, Any], str]:
        config = kind is EffectKind.PATCH_CONFIG
        code = {"base": self.world.small.bad, "revert": [], "pick": [], "diff": CONFIG_DIFF if config else STAGE_DIFF}
        stage: dict[str, Any] = {"stage": "clean", "files": ["stages"], "check": list(PASSES)}
        payload = {"project_id": self.world.project_id, "code": code, "branch": f"lathe/{number}"}
        return {**payload, **({"file": "config.yaml"} if config else stage)}, self.diff(code)

    def diff(self, code: Mapping[str, Any]) -> str:
        """Exactly what a code version changes. Raises RepositoryError."""
        lists = {name: tuple(code.get(name, ())) for name in ("revert", "pick")}
        version = CodeVersion(base=code["base"], diff=code.get("diff", ""), **lists)
        return self.world.lathe.worktrees.materialise(self.world.small.folder, version).diff

    def promotion(self, payload: Mapping[str, Any]) -> str:
        """Exactly what a promotion changes."""
        return promotion_diff(Git(self.world.small.folder), PromotePayload.model_validate(payload))


def as_new(proposal: Proposal, **changes: Any) -> NewProposal:
    """The same content once more, with `changes`."""
    content = {each.name: getattr(proposal, each.name) for each in fields(NewProposal)}
    return NewProposal(**{**content, **changes})
