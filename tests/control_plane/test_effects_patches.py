"""Patches of configuration and of a data stage, promotion of a scaffold: checked, done once, verified, taken back."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
from case import CASE, apply, approve, finish, propose, train_bad_run
from fastapi.testclient import TestClient
from small_project import SmallProject, commit, git
from test_api import header
from test_cli import Command, command  # noqa: F401 - a fixture

from context_store.records import Effect, EffectRequest, Principal, Proposal
from contracts.enums import AutonomyLevel, EffectKind, EffectState, Role
from contracts.errors import RepositoryError, UserInputError
from control_plane.api.app import create_app
from control_plane.projects import register_project
from control_plane.proposing import Wish
from control_plane.proposing import propose as propose_as_person
from control_plane.wiring import Lathe
from control_plane.worktrees import CodeVersion

ADA = Principal(name="ada", role=Role.RESEARCHER)
SCAFFOLD = "refs/lathe/scaffold/debug"
CONFIG = """\
diff --git a/config.yaml b/config.yaml
--- a/config.yaml
+++ b/config.yaml
@@ -1,2 +1,2 @@
 optim:
-  lr: 0.1
+  lr: 0.01
"""
STAGE = """\
diff --git a/stages/dedup.py b/stages/dedup.py
--- a/stages/dedup.py
+++ b/stages/dedup.py
@@ -1 +1 @@
-THRESHOLD = 0.9
+THRESHOLD = 0.8
"""
CHECK = (sys.executable, "-c", "from stages.dedup import THRESHOLD; print(THRESHOLD); assert THRESHOLD == 0.8")


@pytest.fixture
def head(lathe: Lathe, small_project: SmallProject) -> str:
    """Of a project with a configuration file and a data stage, and a case about its run."""
    train_bad_run(lathe, small_project)
    (small_project.folder / "config.yaml").write_text("optim:\n  lr: 0.1\n")
    (small_project.folder / "stages").mkdir()
    (small_project.folder / "stages" / "dedup.py").write_text("THRESHOLD = 0.9\n")
    made = commit(small_project.folder, "configuration and a stage")
    register_project(lathe.store, small_project.folder)
    return made


def project_id(lathe: Lathe) -> str:
    return lathe.store.projects.list()[0].id


def patch(lathe: Lathe, head: str, diff: str, **fields: Any) -> dict[str, Any]:
    code = {"base": head, "revert": [], "pick": [], "diff": diff}
    return {"project_id": project_id(lathe), "code": code, "branch": "lathe/change", **fields}


def carry_out(
    lathe: Lathe,
    project: Path,
    kind: EffectKind,
    payload: dict[str, Any],
    key: str = "apply-1",
    diff: str | None = None,
) -> Effect:
    """Propose in the case, approve, and let an executor finish."""
    if diff is None:
        wanted = payload["code"]
        diff = lathe.worktrees.materialise(project, CodeVersion(base=wanted["base"], diff=wanted["diff"])).diff
    proposal = propose(lathe, kind=kind, title=key, payload=payload, diff=diff, base_state=key)
    approve(lathe, proposal)
    apply(lathe, proposal, key)
    return finish(lathe, key)


def take_back(lathe: Lathe, key: str = "undo-1", effect: str = "apply-1") -> Effect:
    lathe.store.effects.request(
        EffectRequest(key=key, kind=EffectKind.UNDO, payload={"effect": effect}, investigation_id=CASE, actor="loop:d")
    )
    return finish(lathe, key)


def test_a_configuration_file_is_patched_on_a_branch(lathe: Lathe, small_project: SmallProject, head: str) -> None:
    folder = small_project.folder
    done = carry_out(lathe, folder, EffectKind.PATCH_CONFIG, patch(lathe, head, CONFIG, file="config.yaml"))
    assert done.state is EffectState.DONE, done.message
    assert done.result["changes"] == {"optim.lr": [0.1, 0.01]}
    assert git(folder, "show", "lathe/change:config.yaml") == "optim:\n  lr: 0.01"
    assert git(folder, "rev-parse", "HEAD") == head
    assert git(folder, "status", "--porcelain") == ""
    assert take_back(lathe).state is EffectState.DONE
    assert git(folder, "branch", "--list", "lathe/*") == ""


@pytest.mark.parametrize(
    ("file", "diff", "words"),
    [
        ("recipe.py", CONFIG, "not just recipe.py"),
        ("config.yaml", CONFIG + STAGE, "not just config.yaml"),
        ("config.yaml", CONFIG.replace("+  lr: 0.01", "+  lr: [0.01"), "is no configuration"),
        ("config.yaml", CONFIG.replace("+  lr: 0.01", "+  lr: 0.10"), "no field of config.yaml changes"),
    ],
)
def test_only_the_named_configuration_file_may_change(
    lathe: Lathe, small_project: SmallProject, head: str, file: str, diff: str, words: str
) -> None:
    payload = patch(lathe, head, diff, file=file)
    refused = carry_out(lathe, small_project.folder, EffectKind.PATCH_CONFIG, payload)
    assert refused.state is EffectState.FAILED
    assert words in refused.message
    assert git(small_project.folder, "branch", "--list", "lathe/*") == ""


def test_a_data_stage_is_patched_when_its_check_passes(lathe: Lathe, small_project: SmallProject, head: str) -> None:
    payload = patch(lathe, head, STAGE, stage="dedup", files=["stages"], check=list(CHECK))
    done = carry_out(lathe, small_project.folder, EffectKind.PATCH_DATA, payload)
    assert done.state is EffectState.DONE, done.message
    assert (done.result["stage"], done.result["files"], done.result["check"]["status"]) == (
        "dedup",
        ["stages/dedup.py"],
        0,
    )
    assert git(small_project.folder, "show", "lathe/change:stages/dedup.py") == "THRESHOLD = 0.8"
    assert take_back(lathe).state is EffectState.DONE


@pytest.mark.parametrize(
    ("check", "timeout_s", "words"),
    [
        ((sys.executable, "-c", "raise SystemExit('duplicates left')"), 60.0, "with status 1: duplicates left"),
        ((sys.executable, "-c", "import time; time.sleep(60)"), 0.2, "its time was up"),
        (("no-such-program",), 60.0, "with status 1"),
    ],
)
def test_a_stage_whose_check_fails_gets_no_branch(
    lathe: Lathe, small_project: SmallProject, head: str, check: tuple[str, ...], timeout_s: float, words: str
) -> None:
    fields = {"stage": "dedup", "files": ["stages/dedup.py"], "check": list(check), "check_timeout_s": timeout_s}
    failed = carry_out(lathe, small_project.folder, EffectKind.PATCH_DATA, patch(lathe, head, STAGE, **fields))
    assert failed.state is EffectState.FAILED
    assert words in failed.message
    assert git(small_project.folder, "branch", "--list", "lathe/*") == ""


def test_a_check_gets_its_cpu_seconds_and_no_more(lathe: Lathe, small_project: SmallProject, head: str) -> None:
    """Those of what it starts count too, and are booked."""
    busy = f"import subprocess; subprocess.run([{sys.executable!r}, '-c', 'while True: pass'])"
    fields = {"stage": "dedup", "files": ["stages"], "check": [sys.executable, "-c", busy], "check_cpu_s": 0.8}
    failed = carry_out(lathe, small_project.folder, EffectKind.PATCH_DATA, patch(lathe, head, STAGE, **fields))
    assert failed.state is EffectState.FAILED
    assert "CPU s, more than it may use" in failed.message
    assert 0.8 < failed.result["cpu_s"] < 4.0
    assert git(small_project.folder, "branch", "--list", "lathe/*") == ""
    assert not list(lathe.settings.spent_folder.iterdir()), "what is booked is noted no longer"


def test_a_stage_patch_keeps_to_its_files(lathe: Lathe, small_project: SmallProject, head: str) -> None:
    payload = patch(lathe, head, CONFIG + STAGE, stage="dedup", files=["stages/", "."], check=list(CHECK))
    refused = carry_out(lathe, small_project.folder, EffectKind.PATCH_DATA, payload)
    assert refused.state is EffectState.FAILED
    assert "changes config.yaml" in refused.message


@pytest.mark.parametrize(
    "diff",
    [
        "diff --git a/../out b/../out\nnew file mode 100644\n--- /dev/null\n+++ b/../out\n@@ -0,0 +1 @@\n+x\n",
        "diff --git a/.git/x b/.git/x\nnew file mode 100755\n--- /dev/null\n+++ b/.git/x\n@@ -0,0 +1 @@\n+x\n",
        "diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+/etc\n",
        "no diff at all\n",
        CONFIG.replace("lr: 0.1\n", "lr: 0.2\n"),
    ],
)
def test_a_diff_that_leads_elsewhere_or_does_not_fit_is_refused(
    lathe: Lathe, small_project: SmallProject, head: str, diff: str
) -> None:
    with pytest.raises(RepositoryError):
        lathe.worktrees.materialise(small_project.folder, CodeVersion(base=head, diff=diff))


def test_no_re_run_takes_a_diff_that_nobody_committed(lathe: Lathe, small_project: SmallProject, head: str) -> None:
    from case import diagnostic

    diagnostic(lathe, small_project, code={"base": head, "diff": CONFIG})
    refused = finish(lathe, "d1")
    assert refused.state is EffectState.REFUSED
    assert "nobody committed" in refused.message


def promotion(lathe: Lathe, base: str | None, candidate: str) -> dict[str, Any]:
    return {"project_id": project_id(lathe), "name": "debug", "base": base, "candidate": candidate}


def promote(lathe: Lathe, folder: Path, base: str | None, candidate: str, key: str) -> Effect:
    diff = git(
        folder,
        "diff",
        "--full-index",
        "--no-renames",
        base or git(folder, "hash-object", "-t", "tree", "/dev/null"),
        candidate,
    )
    payload = promotion(lathe, base, candidate)
    return carry_out(lathe, folder, EffectKind.PROMOTE_SCAFFOLD, payload, key, diff + "\n" if diff else "")


def test_a_scaffold_is_promoted_and_taken_back(lathe: Lathe, small_project: SmallProject, head: str) -> None:
    folder, first = small_project.folder, small_project.good
    assert promote(lathe, folder, None, first, "apply-1").state is EffectState.DONE
    done = promote(lathe, folder, first, head, "apply-2")
    assert done.state is EffectState.DONE, done.message
    assert git(folder, "rev-parse", SCAFFOLD) == head
    assert len(git(folder, "reflog", "show", SCAFFOLD).splitlines()) == 2
    assert git(folder, "branch", "--list", "lathe/*") == ""
    assert take_back(lathe, "undo-2", "apply-2").state is EffectState.DONE
    assert git(folder, "rev-parse", SCAFFOLD) == first
    assert take_back(lathe, "undo-1", "apply-1").state is EffectState.DONE
    assert git(folder, "for-each-ref", "refs/lathe/scaffold") == ""


def test_a_scaffold_that_moved_is_not_promoted_or_taken_back(
    lathe: Lathe, small_project: SmallProject, head: str
) -> None:
    folder = small_project.folder
    assert promote(lathe, folder, None, small_project.good, "apply-1").state is EffectState.DONE
    git(folder, "update-ref", SCAFFOLD, small_project.bad)
    moved = promote(lathe, folder, small_project.good, head, "apply-2")
    assert (moved.state, "stands at" in moved.message) == (EffectState.REFUSED, True)
    back = take_back(lathe)
    assert (back.state, "has moved on" in back.message) == (EffectState.REFUSED, True)
    assert git(folder, "rev-parse", SCAFFOLD) == small_project.bad
    other = carry_out(
        lathe, folder, EffectKind.PROMOTE_SCAFFOLD, promotion(lathe, small_project.bad, head), "apply-3", "another diff"
    )
    assert (other.state, "not the diff" in other.message) == (EffectState.REFUSED, True)


def test_a_policy_promotes_scaffolds_only_at_the_highest_level(lathe: Lathe) -> None:
    """Shows RM2-7.9: to change a loop's own scaffold is a level of its own."""
    options: dict[str, Any] = {"effects": [EffectKind.PROMOTE_SCAFFOLD], "num_effects": 1}
    with pytest.raises(UserInputError, match="does not change scaffolds"):
        lathe.store.policies.set_autonomy("evolve", AutonomyLevel.ACT, "root", Role.ADMIN, "r", 1.0, **options)
    set_one = lathe.store.policies.set_autonomy
    assert set_one("evolve", AutonomyLevel.EVOLVE, "root", Role.ADMIN, "r", 1.0, **options).level == "evolve"


# --- proposals that persons make


def as_person(lathe: Lathe, kind: EffectKind, payload: dict[str, Any]) -> Proposal:
    wish = Wish(kind=kind, payload=payload, title="a wish", risk="low", verification="look")
    return propose_as_person(lathe.store, wish, ADA, time.time())


def test_a_person_proposes_and_a_worker_carries_it_out(lathe: Lathe, head: str, small_project: SmallProject) -> None:
    from control_plane.worker import Feed, Worker

    proposal = as_person(lathe, EffectKind.PATCH_CONFIG, patch(lathe, head[:10], CONFIG, file="config.yaml"))
    assert proposal.payload["code"]["base"] == head
    assert "+  lr: 0.01" in proposal.diff
    assert as_person(lathe, EffectKind.PATCH_CONFIG, patch(lathe, head, CONFIG, file="config.yaml")).id == proposal.id
    key = f"apply:{proposal.id}"
    lathe.store.knowledge.set_investigation(CASE, state="closed")  # type: ignore[arg-type]
    with Worker(lathe, name="w") as worker:
        for _ in range(3):
            worker.step()
        assert lathe.store.effects.list() == [], "nothing happens before it is approved"
        approve(lathe, proposal)
        done = (EffectState.DONE, EffectState.FAILED, EffectState.REFUSED)
        feed = Feed(lathe.store, lambda _: None, after=0)
        worker.run_until(lambda: any(e.key == key and e.state in done for e in lathe.store.effects.list()), feed)
    assert lathe.store.effects.get(key).state is EffectState.DONE
    assert git(small_project.folder, "show", "lathe/change:config.yaml").endswith("0.01")


def test_proposing_over_http_and_on_the_command_line(
    command: Command,  # noqa: F811
    lathe: Lathe,
    head: str,
) -> None:
    client = TestClient(create_app(lathe.store), base_url="http://127.0.0.1")
    researcher = header(lathe.store, Role.RESEARCHER)
    body = {"kind": "stop_run", "payload": {"run_id": "run-1"}, "title": "stop it"}
    made = client.post("/api/v1/proposals", json=body, headers=researcher)
    assert made.status_code == 201, made.text
    assert (made.json()["proposal"]["state"], made.json()["reviewers_needed"]) == ("open", 1)
    approve_path = f"/api/v1/proposals/{made.json()['proposal']['id']}/approve"
    seen = {"bound_hash": made.json()["proposal"]["bound_hash"]}
    assert client.post(approve_path, json=seen, headers=researcher).status_code == 403
    for wrong in ({**body, "kind": "undo"}, {**body, "payload": {"run": "run-1"}}, {**body, "evidence": ["trust me"]}):
        assert client.post("/api/v1/proposals", json=wrong, headers=researcher).status_code == 400
    unknown = client.post("/api/v1/proposals", json={**body, "payload": {"run_id": "none"}}, headers=researcher)
    assert unknown.status_code == 404
    options = ("--payload", '{"run_id": "run-1"}', "--title", "pause it", "--json")
    assert command("proposals", "make", "pause_run", *options).json["state"] == "open"
    wrong_json = command("proposals", "make", "pause_run", "--payload", "[]", "--title", "t")
    assert (wrong_json.status, "no JSON object" in wrong_json.err) == (2, True)
