"""Secrets never reach the database, whatever door they come through, and a report says what was taken out."""

from __future__ import annotations

import psycopg
import pytest
from training_log import Training, make_run, started

from context_store import Store
from context_store.records import Anomaly, NegativeResult, TimelineEvent
from context_store.redaction import redact, redact_code, redact_json
from contracts.enums import TimelineKind
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
        "commit 0123456789abcdef0123456789abcdef01234567",
    ],
)  # fmt: skip
def test_code_that_only_speaks_of_secrets_stays(code: str) -> None:
    assert redact_code(code) == code


@pytest.mark.parametrize("field", ["token", "a.token", "hf_token", "wandb.key", "wandb_key", "db_pwd", "passphrase"])
def test_fields_that_are_secrets_by_their_name(field: str) -> None:
    assert redact_json({field: "hunter2"}) == {field: "[redacted field]"}


@pytest.mark.parametrize("field", ["pad_token", "eos_token", "env.PWD", "tokens", "keys", "primary_key"])
def test_fields_that_only_sound_like_secrets(field: str) -> None:
    assert redact_json({field: "<|end|>"}) == {field: "<|end|>"}


@pytest.mark.parametrize("piece", ["x", "a.b-", "a@", "x://", "password ", "--token ", "a:", "eyJ", "9_"])
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


def occurrences(store: Store, text: str) -> int:
    """In all columns of all tables."""
    with psycopg.connect(store.url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        queries = [f"SELECT count(*) FROM {name} AS t WHERE strpos(t::text, %s) > 0" for (name,) in tables]
        return sum(row[0] for query in queries for row in connection.execute(query, [text]).fetchall())
