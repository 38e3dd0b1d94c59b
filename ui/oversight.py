"""What the API answers about services, limits and people, validated where it enters; as `records`."""

from __future__ import annotations

from datetime import datetime

from ui.records import Halt, Record


class Flow(Record):
    """Which text goes to which provider of models."""

    purpose: str
    to: str
    text: str
    leaves_machine: bool
    tokens: int
    usd: float


class Flows(Record):
    """`never`: what is sent to nobody."""

    flows: tuple[Flow, ...]
    never: str


class WrittenReport(Record):
    """`html`: one page that holds its plots."""

    html: str
    brain: str
    removed: int
    claimed: int


class Check(Record):
    """`ok` None: a note about something optional."""

    name: str
    ok: bool | None
    detail: str
    remedy: str = ""


class System(Record):
    worker: bool
    checks: tuple[Check, ...] = ()


class Policy(Record):
    id: int
    kind: str
    loop: str = ""
    level: str | None = None
    effects: tuple[str, ...] = ()
    cpu_s: float = 0.0
    num_effects: int = 0
    reason: str
    set_by: str
    set_at: datetime
    revoked_by: str = ""
    revoked_at: datetime | None = None


class Autonomy(Record):
    """How far a loop may go; from `act` on which effects by itself, how many, and their CPU seconds together."""

    loop: str
    level: str
    effects: tuple[str, ...] = ()
    cpu_s: float = 0.0
    num_effects: int = 0


class Policies(Record):
    policies: tuple[Policy, ...] = ()
    halted: Halt | None = None
    default_level: str
    major: tuple[str, ...] = ()
    by_policy: tuple[str, ...] = ()


class Schedule(Record):
    id: int
    action: str
    target: str
    every_s: float
    reason: str
    set_by: str
    next_at: datetime
    last_at: datetime | None = None
    last_ok: bool
    last_message: str = ""


class Token(Record):
    id: int
    name: str
    role: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


class MadeToken(Record):
    token: Token
    secret: str
