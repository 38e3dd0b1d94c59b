"""Effects that are no training: stop, pause, checkpoint, branch, notification. Real processes, a real HTTP server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from case import CASE, FINISHED, RUN, apply, approve, diagnostic, drive, finish, propose, propose_fix
from small_project import SmallProject, git, until

from context_store.records import Effect, EffectRequest
from contracts.backend import Launch
from contracts.enums import EffectKind, EffectState
from control_plane.backends.metered import SpentNotes
from control_plane.backends.segment import is_running
from control_plane.effects import Workshop, handlers
from control_plane.wiring import Lathe
from control_plane.worktrees import CodeVersion

EXECUTOR = """
import time
from control_plane.settings import load_settings
from control_plane.wiring import Lathe
with Lathe.open(load_settings()) as lathe:
    executor = lathe.executor("doomed")
    while True:
        executor.step()
        time.sleep(0.01)
"""


@pytest.fixture
def long_run(lathe: Lathe, bad_run: SmallProject) -> Iterator[Launch]:
    """A segment that goes on for minutes unless somebody stops it."""
    launch = lathe.trainings.go_on(RUN, overrides={"step_s": 0.01}, max_step=100_000)
    lathe.backend.submit(launch)
    until(lambda: lathe.shipper.ship(RUN, launch.folder) > 0)
    yield launch
    lathe.backend.cancel(RUN, launch.segment)
    until(lambda: not is_running(launch.folder, launch.segment))


def act(lathe: Lathe, kind: EffectKind, key: str = "apply-1", **payload: Any) -> Effect:
    """Propose it, have it approved, and carry it out."""
    proposal = propose(
        lathe, kind=kind, title=f"{kind} {key}", payload=payload or {"run_id": RUN}, diff="", base_state=key
    )
    approve(lathe, proposal)
    apply(lathe, proposal, key)
    return finish(lathe, key)


def last_step(lathe: Lathe, launch: Launch) -> int:
    lathe.shipper.ship(RUN, launch.folder)
    return lathe.store.runs.get(RUN).last_step


def test_a_run_is_stopped_with_a_checkpoint(lathe: Lathe, long_run: Launch) -> None:
    effect = act(lathe, EffectKind.STOP_RUN)
    assert effect.state == EffectState.DONE, effect.message
    assert not is_running(long_run.folder, long_run.segment)
    assert effect.result["checkpoint_step"] == effect.result["last_step"] == last_step(lathe, long_run)


def test_a_run_pauses_and_goes_on_as_if_nothing_had_happened(lathe: Lathe, long_run: Launch) -> None:
    paused = act(lathe, EffectKind.PAUSE_RUN)
    assert paused.state == EffectState.DONE, paused.message
    at = last_step(lathe, long_run)
    assert paused.result["checkpoint_step"] == at
    assert is_running(long_run.folder, long_run.segment)
    assert act(lathe, EffectKind.UNPAUSE_RUN, "apply-2").state == EffectState.DONE
    until(lambda: last_step(lathe, long_run) > at + 5)
    steps = lathe.store.series.read(RUN, "loss").steps.tolist()
    assert steps == list(range(1, steps[-1] + 1))
    notes = [event.title for event in lathe.store.timeline.list(RUN) if "apply-" in event.title]
    assert notes == ["pauses (apply-1)", "goes on after a pause (apply-2)"]


def test_a_paused_run_can_be_stopped(lathe: Lathe, long_run: Launch) -> None:
    assert act(lathe, EffectKind.PAUSE_RUN).state == EffectState.DONE
    assert act(lathe, EffectKind.STOP_RUN, "apply-2").state == EffectState.DONE
    assert not is_running(long_run.folder, long_run.segment)


def test_a_checkpoint_is_written_once_for_each_request(lathe: Lathe, long_run: Launch) -> None:
    first = act(lathe, EffectKind.CHECKPOINT_RUN)
    assert first.state == EffectState.DONE, first.message
    second = act(lathe, EffectKind.CHECKPOINT_RUN, "apply-2")
    assert second.result["checkpoint_step"] > first.result["checkpoint_step"]
    assert is_running(long_run.folder, long_run.segment)


def test_what_does_not_run_cannot_be_stopped(lathe: Lathe, bad_run: SmallProject) -> None:
    effect = act(lathe, EffectKind.STOP_RUN)
    assert effect.state == EffectState.FAILED
    assert "is not being trained" in effect.message
    assert "lathe runs" in effect.remedy


def test_a_stop_waits_for_no_rerun(lathe: Lathe, bad_run: SmallProject, long_run: Launch) -> None:
    """With every slot taken by re-runs that last, a stop is carried out at once."""
    executor = lathe.executor("worker-a")
    for key in ("d1", "d2", "d3"):
        diagnostic(lathe, bad_run, key, overrides={"step_s": 0.5})
    executor.step()
    proposal = propose(lathe, kind=EffectKind.STOP_RUN, title="stop", payload={"run_id": RUN}, diff="", base_state="")
    approve(lathe, proposal)
    apply(lathe, proposal)
    drive(executor, lambda: lathe.store.effects.get("apply-1").state in FINISHED)
    states = [lathe.store.effects.get(key).state for key in ("apply-1", "d1", "d2", "d3")]
    assert states == [EffectState.DONE, EffectState.RUNNING, EffectState.RUNNING, EffectState.REQUESTED]


@pytest.mark.parametrize(("watched", "state"), [(20, EffectState.DONE), (None, EffectState.REFUSED)])
def test_a_loop_stops_only_a_change_of_its_own_that_is_watched(
    lathe: Lathe, bad_run: SmallProject, watched: int | None, state: EffectState
) -> None:
    """The approval of a watched fix covers its end; no other training is stopped without one."""
    more = {} if watched is None else {"watch_until": watched}
    proposal = propose_fix(lathe, bad_run, max_step=100_000, overrides={"step_s": 0.01}, **more)
    approve(lathe, proposal)
    apply(lathe, proposal)
    executor = lathe.executor("worker-a")
    drive(
        executor, lambda: len(lathe.store.runs.segments(RUN)) == 2 and lathe.store.runs.segments(RUN)[1].last_step > 19
    )
    lathe.store.effects.request(
        EffectRequest(
            key="stop", kind=EffectKind.STOP_RUN, payload={"run_id": RUN}, investigation_id=CASE, actor="loop:debug"
        )
    )
    drive(executor, lambda: lathe.store.effects.get("stop").state in FINISHED)
    assert lathe.store.effects.get("stop").state is state
    fix = lathe.store.runs.segments(RUN)[-1]
    if state is EffectState.REFUSED:
        lathe.backend.cancel(RUN, fix.number)
    drive(executor, lambda: lathe.store.effects.get("apply-1").state in FINISHED)
    assert lathe.store.effects.get("apply-1").result["reason"] == "stopped"


def test_a_main_run_starts_before_reruns_that_were_asked_for_earlier(lathe: Lathe, bad_run: SmallProject) -> None:
    diagnostic(lathe, bad_run, "d1")
    fields = {"project_id": lathe.store.runs.get(RUN).project_id, "run_id": "run-2", "max_step": 12}
    proposal = propose(
        lathe,
        kind=EffectKind.START_RUN,
        title="train",
        payload={**fields, "code": {"base": bad_run.good}},
        diff="",
        base_state="",
    )
    approve(lathe, proposal)
    apply(lathe, proposal)
    claimed = lathe.store.effects.claim("w", tuple(EffectKind), 60.0, 1.0)
    assert claimed is not None
    assert claimed.key == "apply-1"


def test_a_patch_of_the_code_is_a_branch_that_can_be_taken_back(lathe: Lathe, bad_run: SmallProject) -> None:
    head = git(bad_run.folder, "rev-parse", "HEAD")
    diff = lathe.worktrees.materialise(bad_run.folder, CodeVersion(base=bad_run.bad, revert=(bad_run.bad,))).diff
    payload = {
        "project_id": lathe.store.runs.get(RUN).project_id,
        "code": {"base": bad_run.bad, "revert": [bad_run.bad]},
        "branch": "lathe/fix-7",
    }
    proposal = propose(lathe, kind=EffectKind.PATCH_CODE, title="patch", payload=payload, diff=diff, base_state="")
    approve(lathe, proposal)
    apply(lathe, proposal)
    effect = finish(lathe, "apply-1")
    assert effect.state == EffectState.DONE, effect.message
    assert git(bad_run.folder, "diff", bad_run.bad, "lathe/fix-7", "--stat").startswith("recipe.py")
    assert git(bad_run.folder, "rev-parse", "HEAD") == head
    undo = EffectRequest(
        key="undo-1", kind=EffectKind.UNDO, payload={"effect": "apply-1"}, investigation_id=CASE, actor="ada"
    )
    lathe.store.effects.request(undo)
    assert finish(lathe, "undo-1").state == EffectState.DONE
    assert git(bad_run.folder, "branch", "--list", "lathe/fix-7") == ""


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """A server on loopback and what it was told: (Idempotency-Key, body). `/broken` answers 500."""
    told: list[tuple[str, dict[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told.append((self.headers["Idempotency-Key"], body))
            self.send_response(500 if self.path == "/broken" else 204)
            self.end_headers()

        log_message: Callable[..., None] = lambda *_: None

    with served(Handler) as url:
        yield url, told


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_notification_is_posted_once(
    lathe: Lathe, bad_run: SmallProject, receiver: tuple[str, list[tuple[str, dict[str, str]]]]
) -> None:
    url, told = receiver
    effect = act(lathe, EffectKind.NOTIFY, url=f"{url}/hook", text="layer 5 departs")
    assert effect.state == EffectState.DONE, effect.message
    assert told == [("apply-1", {"text": "layer 5 departs"})]
    assert (effect.result["status"], effect.result["tries"]) == (204, 1)
    refused = act(lathe, EffectKind.NOTIFY, "apply-2", url=f"{url}/broken", text="again")
    assert refused.state == EffectState.FAILED
    assert "answered 500" in refused.message


def test_a_notification_with_a_receipt_is_not_posted_again(
    lathe: Lathe, bad_run: SmallProject, receiver: tuple[str, list[tuple[str, dict[str, str]]]]
) -> None:
    """As after a kill between the receipt and the end of the effect."""
    url, told = receiver
    requested_notification(lathe, f"{url}/hook")
    effect = lathe.store.effects.claim("killed", {EffectKind.NOTIFY}, 15.0, time.time())
    assert effect is not None
    (notify,) = (each for each in handlers(workshop(lathe)) if each.kind is EffectKind.NOTIFY)
    notify.do(effect, None)
    done = finish(lathe, effect.key, clock=lambda: time.time() + 60)
    assert (done.state, done.attempt, done.result["tries"]) == (EffectState.DONE, 2, 1)
    assert len(told) == 1


def test_a_kill_before_the_receipt_is_told_apart_by_the_key(lathe: Lathe, bad_run: SmallProject) -> None:
    """The server counts effects as a receiver that knows the key does: one, whatever is killed when. It holds its
    answer back until the sender is dead."""
    keys: list[str] = []
    dead = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            keys.append(self.headers["Idempotency-Key"])
            dead.wait(20)
            with suppress(OSError):
                self.send_response(204)
                self.end_headers()

        log_message: Callable[..., None] = lambda *_: None

    with served(Handler) as url:
        requested_notification(lathe, f"{url}/hook")
        environment = {**os.environ, **lathe.settings.as_environment()}
        sender = subprocess.Popen([sys.executable, "-c", EXECUTOR], env=environment)
        try:
            until(lambda: len(keys) == 1)
        finally:
            sender.kill()
            sender.wait()
        dead.set()
        done = finish(lathe, "apply-1", clock=lambda: time.time() + 60)
    assert (done.state, done.result["tries"]) == (EffectState.DONE, 2), "it says that it may have come twice"
    assert keys == ["apply-1", "apply-1"]


def requested_notification(lathe: Lathe, url: str) -> None:
    payload = {"url": url, "text": "layer 5 departs"}
    proposal = propose(lathe, kind=EffectKind.NOTIFY, title="tell", payload=payload, diff="", base_state="x")
    approve(lathe, proposal)
    apply(lathe, proposal)


def workshop(lathe: Lathe) -> Workshop:
    folder, spent = lathe.settings.runs_folder, SpentNotes(folder=lathe.settings.spent_folder)
    return Workshop(store=lathe.store, worktrees=lathe.worktrees, runs_folder=folder, spent=spent)
