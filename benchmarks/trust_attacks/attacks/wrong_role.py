"""Every request that changes something, of the API's own description, with a token that must not do it."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.trust_attacks.kit import Kit
from contracts.enums import Role

_OF_REVIEWERS = ("/proposals", "/policies", "/tokens", "/schedules")
_BODY: dict[str, Any] = {
    "comment": "yes", "reason": "because", "loop": "debug", "level": "evolve", "effects": ["notify"], "cpu_s": 1.0,
    "num_effects": 5, "name": "eve", "role": "admin", "changes": {}, "run_id": "run-1",
}  # fmt: skip
_REFUSED = (401, 403)


def variants(kit: Kit) -> dict[str, Any]:
    described = kit.http("GET", "/openapi.json", role=Role.ADMIN).json()
    found: dict[str, Any] = {}
    for path, operations in described["paths"].items():
        for method in sorted(set(operations) & {"post", "put", "patch", "delete"}):
            for who in ("nobody", "wrong", "viewer", *(["researcher"] if _is_of_reviewers(path) else [])):
                found[f"{method} {path} as {who}"] = (method.upper(), path, who)
    return found


def _is_of_reviewers(path: str) -> bool:
    """Whoever researches may propose; none of them may decide."""
    path = path.removeprefix("/api/v1")
    return path.startswith(_OF_REVIEWERS) and path != "/proposals"


def control(kit: Kit) -> bool:
    """A reviewer approves, an admin halts and lets everything go on."""
    proposal = kit.propose()
    allowed = kit.approve(proposal).is_success
    kit.allowed.policies += 1
    for what in ("halt", "resume"):
        answer = kit.http("POST", f"/policies/{what}", role=Role.ADMIN, json={"reason": "a drill"})
        allowed = allowed and answer.is_success
    kit.request(proposal)
    kit.settle()
    return allowed and kit.is_done(proposal)


def attack(kit: Kit, variant: tuple[str, str, str]) -> object:
    method, path, who = variant
    proposal = kit.propose()
    names = {"proposal_id": proposal.id, "case_id": kit.case_id, "run_id": "run-1"}
    for name in (part[1:-1] for part in path.split("/") if part.startswith("{")):
        path = path.replace(f"{{{name}}}", names.get(name, "1"))
    tokens = {"nobody": {}, "wrong": {"token": "lathe_" + "A" * 43}}
    given: dict[str, Any] = tokens.get(who) or ({} if who == "nobody" else {"role": Role(who)})
    body = {**_BODY, "bound_hash": proposal.bound_hash}
    while (answer := kit.http(method, path.removeprefix("/api/v1"), json=body, **given)).status_code == 429:
        time.sleep(0.5)
    kit.request(proposal)
    return answer.status_code not in _REFUSED
