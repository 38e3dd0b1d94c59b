"""Secrets never reach the database, whatever door they come through, and a report says what was taken out."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import psycopg
import pytest
from proposal_at_hand import NEW, NOW
from training_log import Training, make_run, started, steps

from context_store import Store
from context_store.records import (
    Amount,
    Anomaly,
    ChatThread,
    Diagnostic,
    EffectRequest,
    Level,
    NegativeResult,
    NewScore,
    Pipeline,
    Project,
    StageVersion,
    Suspect,
    TimelineEvent,
    VerdictRecord,
)
from context_store.records import Stage as DataStage
from context_store.redaction import redact, redact_author, redact_code, redact_json, redact_source
from contracts.enums import (
    CauseKind,
    DiagnosticKind,
    EffectKind,
    MemoryKind,
    Role,
    RunState,
    ScheduleAction,
    Scope,
    Stage,
    TimelineKind,
    Verdict,
)
from contracts.errors import UserInputError
from contracts.evidence import EvidenceRef

KEY = "sk-abcdefghijklmnop1234"
RUN = EvidenceRef(kind="run", id="run-1")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"use {KEY} now", "use [redacted key] now"),
        ("ask Bob@example.org", "ask [redacted email]"),
        ("postgres://u:pw@h/db", "postgres://u:[redacted password]@h/db"),
        ("Authorization: Bearer abcdefghijklmnop1234", "Authorization: Bearer [redacted key]"),
        ('API_KEY = "s3cret-value"', 'API_KEY = "[redacted password]"'),
        ("wandb_api_key=0123456789abcdef0123", "wandb_api_key=[redacted password]"),
        (
            "run.py --api-key=hunter2secret --password hunter3 -x",
            "run.py --api-key=[redacted password] --password [redacted password] -x",
        ),
        ('["run.py", "--hf-token", "hunter2"]', '["run.py", "--hf-token", "[redacted password]"]'),
        (f"groq gsk_{'aB3' * 17}", "groq [redacted key]"),
        (f"databricks dapi{'0af9' * 8}", "databricks [redacted key]"),
        (f"vault hvs.{'aB-3' * 8}", "vault [redacted key]"),
        (f"mail SG.{'aB_3' * 5}.{'c-D4' * 10}", "mail [redacted key]"),
        (f"replicate r8_{'aB3' * 12}", "replicate [redacted key]"),
        (f"grok xai-{'aB3' * 26}", "grok [redacted key]"),
        ("-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nx", "[redacted private_key]\nx"),
        ("-----BEGIN RSA PRIVATE KEY-----\nan open end", "[redacted private_key]"),
    ],
)
def test_what_is_a_secret_is_replaced_by_its_kind(text: str, left: str) -> None:
    assert redact(text) == left
    assert redact(left) == left, "twice is once"


@pytest.mark.parametrize(
    "code",
    [
        "token = tokens[i]", 'self.pad_token = "<|endoftext|>"', 'secret = os.environ["API_KEY"]',
        "access_token = get_token(1234567890)", "y = x@weights.view(3)", "api_key: str = field(default=None)",
        "commit 0123456789abcdef0123456789abcdef01234567", "SG.step(x)", "r8_norm", "xai-small", "dapi", "hvs.mean(0)",
    ],
)  # fmt: skip
def test_code_that_only_speaks_of_secrets_stays(code: str) -> None:
    assert redact_code(code) == code


@pytest.mark.parametrize(
    ("code", "left"),
    [
        ("# Author: Ada <ada@lab.internal>", "# Author: Ada <[redacted email]>"),
        ('owner = "ada@lab.internal"', 'owner = "[redacted email]"'),
        ("Signed-off-by: ada@example.org", "Signed-off-by: [redacted email]"),
        ("+see mailto:ada@lab.internal", "+see mailto:[redacted email]"),
        ("# ask ada@example.com.", "# ask [redacted email]."),
        ("y = x@w.view(3) + x@net.weight", "y = x@w.view(3) + x@net.weight"),
        ("y = (x@w.to(device))@v.T", "y = (x@w.to(device))@v.T"),
        ("z = q@k.mT; return z@v.in[0]", "z = q@k.mT; return z@v.in[0]"),
        ("git clone git@github.com:lab/code", "git clone git@github.com:lab/code"),
        ("key = 'sk-abcdefghijklmnop1234'", "key = '[redacted key]'"),
    ],
)
def test_addresses_in_code_go_and_products_of_matrices_stay(code: str, left: str) -> None:
    assert redact_source(code) == left
    assert redact_source(left) == left, "twice is once"


def test_an_author_keeps_a_name_without_an_address() -> None:
    assert redact_author("Ada Lovelace") == "Ada Lovelace"
    assert redact_author("ada.l@example.org") == "ada.l [redacted email]"


def test_an_address_in_a_change_of_code_is_not_stored_and_the_patch_of_git_is_whole(
    store: Store, tmp_path: Path
) -> None:
    make_run(store)
    git = ["git", "-c", "user.name=ada@example.org", "-c", "user.email=ada@example.org", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "a.py").write_text('MAIL = "ada@example.org"\ny = x@w.view(3)\n')
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "mail ada@example.org"], check=True)
    store.code.ingest("p", tmp_path)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    (hunk,) = store.code.hunks("p", head)
    assert hunk.text == '+MAIL = "[redacted email]"\n+y = x@w.view(3)\n'
    assert store.code.commit("p", head).author == "ada [redacted email]"
    counted = {each.where: each.count for each in store.redactions.list()}
    assert counted == {"hunk.text": 1, "code_commit.author": 1, "code_commit.subject": 1}
    patch = subprocess.run([*git, "show", "--format=", head], check=True, capture_output=True, text=True).stdout
    assert "ada@example.org" in patch, "what is applied comes from git"


@pytest.mark.parametrize("field", ["token", "a.token", "hf_token", "wandb.key", "wandb_key", "db_pwd", "passphrase"])
def test_fields_that_are_secrets_by_their_name(field: str) -> None:
    assert redact_json({field: "hunter2"}) == {field: "[redacted field]"}


@pytest.mark.parametrize("field", ["pad_token", "eos_token", "env.PWD", "tokens", "keys", "primary_key"])
def test_fields_that_only_sound_like_secrets(field: str) -> None:
    assert redact_json({field: "<|end|>"}) == {field: "<|end|>"}


@pytest.mark.parametrize(
    "piece", ["x", "a.b-", "a@", "x://", "password ", "--token ", "a:", "eyJ", "9_", "SG.", "SG.a-", "xai-", "dapi0"]
)
def test_a_long_text_is_read_in_linear_time(piece: str) -> None:
    """A quadratic expression takes minutes for this, and holds everything up."""
    text = piece * (2_000_000 // len(piece))
    assert len(redact(text)) > 0


def test_fields_are_redacted_by_name_at_any_depth() -> None:
    value = {"a": [{"api_key": "x", "n": 1, "mail": "a@b.co"}], "password": "", "max_tokens": "100"}
    assert redact_json(value) == {
        "a": [{"api_key": "[redacted field]", "n": 1, "mail": "[redacted email]"}], "password": "", "max_tokens": "100",
    }  # fmt: skip


def test_no_door_lets_a_secret_in_and_the_report_counts_them(store: Store, training: Training) -> None:
    store.negatives.add(
        NegativeResult(
            claim=f"the key {KEY} helps", intervention="", context={"api_key": "zzzz-secret"}, expected="", observed="",
            reason_class="", reason="mail anna@example.org", evidence=(RUN,), reopen_if="", investigation_id=None,
            actor="anna", project_id="p",
        )
    )  # fmt: skip
    note = TimelineEvent(
        run_id="run-1", segment=0, step=1, kind=TimelineKind.NOTE, title=f"login {KEY}", detail={"token": {"k": KEY}}
    )
    store.timeline.add(note)
    make_run(store, "run-2")
    training.log(started(config={"a.api_key": "zzzz-secret"}, environment={"owner": "anna@example.org"}))
    training.ship()
    found = store.knowledge.put_anomaly(
        Anomaly(
            run_id="run-1", kind="k", series=("s",), onset=(1, 2), severity=1.0, statement=f"odd {KEY}", evidence=(RUN,)
        )
    )
    store.knowledge.open_investigation("c", "run-1", [found.id], f"case {KEY}", at=1.0)
    store.knowledge.set_investigation("c", statement="anna@example.org did it")
    for secret in (KEY, "zzzz-secret", "anna@example.org"):
        assert occurrences(store, secret) == 0
    counted = {(each.where, each.kind): each.count for each in store.redactions.list()}
    assert counted[("negative_result.claim", "key")] == 1
    assert counted[("negative_result.context", "field")] == 1
    assert counted[("timeline_event.title", "key")] == 1
    assert counted[("anomaly.statement", "key")] == counted[("investigation.title", "key")] == 1
    assert counted[("investigation.statement", "email")] == 1
    assert {each.owner for each in store.redactions.list()} == {"p", "run-1"}


TEXT = f"Anna <anna@example.org> says {KEY}"


def say_in_the_case(store: Store) -> None:
    store.knowledge.open_investigation("case-1", "run-1", [], TEXT, at=1.0)
    store.knowledge.put_suspect(
        Suspect(
            investigation_id="case-1", key="k", cause_kind=CauseKind.CODE, title=TEXT, commits=(), evidence=(RUN,),
            score=1.0, rank=1, status=Verdict.REFUTED, reason=TEXT,
        )
    )  # fmt: skip
    store.knowledge.put_diagnostic(
        Diagnostic(
            investigation_id="case-1", key="d", kind=DiagnosticKind.REVERT, label=TEXT, suspect_keys=("k",),
            run_id="run-1", effect_key="", reading=TEXT,
        )
    )  # fmt: skip
    store.knowledge.put_verdict(
        VerdictRecord(
            investigation_id="case-1", verdict=Verdict.PROVEN, scope=Scope.THIS_RUN, suspect_keys=("k",), num_reruns=2,
            effect=None, interval=None, statement=TEXT, would_overturn=TEXT, evidence=(RUN,),
        )
    )  # fmt: skip
    store.knowledge.put_report("case-1", TEXT)


def say_to_each_other(store: Store) -> None:
    thread = ChatThread(id="t", title=TEXT, run_id="run-1", investigation_id="", created_by="ada", created_at=1.0)
    store.threads.open(thread)
    store.threads.add("t", question=TEXT, answer={"rows": [TEXT], "token": KEY}, actor="ada", at=1.0)
    for at in (1.0, 2.0):  # the same again is no new entry
        store.memory.remember(TEXT, TEXT, kind=MemoryKind.FACT, evidence=(RUN,), author="ada", at=at)
    assert len(store.memory.line(TEXT)) == 1
    store.memory.retire(TEXT, TEXT, author="ada", at=3.0)
    store.ledger.append("ada", "note", "run:run-1", {"said": [TEXT]}, (RUN,), at=1.0)
    store.activity.publish("progress", f"see {KEY}", detail={"said": TEXT})


def say_in_decisions(store: Store) -> None:
    asked = store.proposals.put(dataclasses.replace(NEW, title=TEXT, risk=TEXT, verification=TEXT, expires_at=9e9))
    store.proposals.approve(asked.id, "ada", Role.REVIEWER, TEXT, at=NOW)
    other = store.proposals.put(dataclasses.replace(NEW, diff="+c\n", expires_at=9e9))
    store.proposals.reject(other.id, "ada", Role.REVIEWER, TEXT, at=NOW)
    request = EffectRequest(
        key="case-1/e", kind=EffectKind.DIAGNOSTIC_RUN, payload={}, investigation_id="case-1", actor="loop"
    )
    store.effects.fail(store.effects.request(request).key, TEXT, TEXT)
    store.policies.halt("ada", Role.ADMIN, f"see {KEY}", at=NOW)
    store.policies.resume("ada", Role.ADMIN, f"see {KEY}", at=NOW)
    schedule = store.schedules.set(
        ScheduleAction.WATCH, target="", every_s=60.0, actor="ada", role=Role.ADMIN, reason=TEXT, at=NOW
    )
    store.schedules.report(schedule.id, TEXT, at=NOW, ok=True)
    experiment = store.experiments.open("x", TEXT, "ada", NOW, Amount(cpu_s=1.0))
    assert experiment.stage is Stage.PLAN


def say_of_data(store: Store, raw: Path) -> None:
    store.runs.set_state("run-1", RunState.FAILED, TEXT)
    raw.write_text("x")
    store.evals.add(
        NewScore(
            project_id="p", run_id="run-1", segment=0, step=1, checkpoint=str(raw), recipe="c0ffee", benchmark="arc",
            metric="acc", protocol="few-shot", shots=5, harness="own", value=0.5, owner="ada",
            settings={"api_key": "zzzz-secret"}, raw=str(raw),
        )
    )  # fmt: skip


def test_what_is_said_of_cases_decisions_and_data_holds_no_secret(store: Store, training: Training) -> None:
    training.log(*steps(1, 2))
    training.ship()
    for say in (say_in_the_case, say_to_each_other, say_in_decisions):
        say(store)
    say_of_data(store, training.folder / KEY)
    for secret in (KEY, "anna@example.org", "zzzz-secret"):
        assert occurrences(store, secret) == 0
    counted = {(each.where, each.kind): each.count for each in store.redactions.list()}
    for where in (
        "suspect.title", "suspect.reason", "diagnostic.label", "diagnostic.reading", "verdict.statement",
        "verdict.would_overturn", "investigation.report", "chat_thread.title", "chat_exchange.question",
        "chat_exchange.answer", "ledger_entry.detail", "memory_entry.text", "proposal.title", "proposal.risk",
        "proposal.verification", "proposal.comment", "approval.comment", "effect.message", "effect.remedy",
        "policy.reason", "schedule.reason", "schedule.last_message", "experiment.title", "activity.text", "score.raw",
        "run.message",
    ):  # fmt: skip
        assert counted[(where, "key")] >= 1, where
    assert counted[("score.settings", "field")] == 1


def test_subjects_of_commits_and_settings_of_stages_hold_no_secret(store: Store, tmp_path: Path) -> None:
    """The settings of a stage stay one version, whether they come with their secrets or without."""
    project = tmp_path / "project"
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    name = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    commit = ["commit", "-q", "--allow-empty", "-m", f"thanks to anna@example.org, was {KEY}"]
    subprocess.run(["git", "-C", str(project), *name, *commit], check=True)
    store.projects.put(Project(id="p", path=str(project)))
    store.code.ingest("p", project)
    stage = DataStage(key="crawl", level=Level.L1, title="crawl")
    store.data.put_pipeline(Pipeline(id="web", title="web", owner="ada", stages=(stage,)))
    settings = {"api_key": "zzzz-secret", "contact": "anna@example.org", "urls": (f"s3://{KEY}",), "min_words": 5}
    version = StageVersion(pipeline_id="web", stage="crawl", code_version="v1", settings=settings)
    store.data.put_stage_version(version)
    for secret in (KEY, "zzzz-secret", "anna@example.org"):
        assert occurrences(store, secret) == 0
    store.data.put_stage_version(version)
    (stored,) = store.data.stage_versions("web")
    assert stored.settings["min_words"] == 5
    store.data.put_stage_version(stored)
    with pytest.raises(UserInputError, match="other settings"):
        store.data.put_stage_version(dataclasses.replace(version, settings={**settings, "min_words": 6}))
    counted = {(each.where, each.kind) for each in store.redactions.list()}
    assert {("code_commit.subject", "email"), ("code_commit.subject", "key")} <= counted
    assert {("stage_version.settings", kind) for kind in ("email", "field", "key")} <= counted


def occurrences(store: Store, text: str) -> int:
    """In all columns of all tables."""
    with psycopg.connect(store.url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        queries = [f"SELECT count(*) FROM {name} AS t WHERE strpos(t::text, %s) > 0" for (name,) in tables]
        return sum(row[0] for query in queries for row in connection.execute(query, [text]).fetchall())
