"""Policies: how far each loop may go by itself, what needs two reviewers, and whether anything may begin at all.

Only an admin sets or revokes one; nothing that a loop, a log or a web page says reaches these functions. A policy is
never changed: a new one takes its place, and who set and who revoked each of them stays.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from context_store.activity import ActivityFeed
from context_store.database import Database
from context_store.ledger import append_entry
from context_store.models import BudgetRow, PolicyRow
from context_store.records import Policy
from context_store.redaction import redact
from contracts.enums import AutonomyLevel, EffectKind, PolicyKind, Role
from contracts.errors import NotFound, RoleRequired, UserInputError

CLAIMED_WHILE_HALTED = frozenset({EffectKind.STOP_RUN, EffectKind.PAUSE_RUN, EffectKind.CHECKPOINT_RUN})
WITHIN_BUDGET = frozenset({EffectKind.DIAGNOSTIC_RUN, EffectKind.CASE_WORK})
WITHOUT_APPROVAL = WITHIN_BUDGET | {EffectKind.UNDO}  # the last takes back only what was approved
MAJOR = frozenset(EffectKind) - WITHOUT_APPROVAL  # need an approval, by a person or by a policy (RM2-7.22)
BY_POLICY = MAJOR - {EffectKind.NEXT_STAGE, EffectKind.OPEN_SEAL}  # an outer edge and a seal need a person
_NEED_CPU = frozenset(
    {EffectKind.START_RUN, EffectKind.RESUME_WITH_PATCH, EffectKind.UNPAUSE_RUN, EffectKind.PATCH_DATA}
)


class Policies:
    def __init__(self, database: Database) -> None:
        self._database = database

    def set_autonomy(
        self,
        loop: str,
        level: AutonomyLevel,
        actor: str,
        role: Role,
        reason: str,
        at: float,
        *,
        effects: Sequence[EffectKind] = (),
        cpu_s: float = 0.0,
        num_effects: int = 0,
    ) -> Policy:
        """From now on `loop` may do this much; it takes the place of what held before.

        From ACT on the kinds in `effects` are approved by the policy itself, at most `num_effects` times and with
        `cpu_s` CPU seconds together; each may use an equal share of what is left. Raises RoleRequired below admin,
        UserInputError for a level without its budget, or a budget without the level.
        """
        _check_autonomy(loop, level, frozenset(effects), cpu_s, num_effects)
        named = tuple(sorted({kind.value for kind in effects}))
        values = {"loop": loop, "level": level, "effects": named, "cpu_s": cpu_s, "num_effects": num_effects}
        return self._set(PolicyKind.AUTONOMY, actor, role, reason, at, values)

    def require_four_eyes(
        self, effects: Sequence[EffectKind], actor: str, role: Role, reason: str, at: float
    ) -> Policy:
        """Exactly these kinds need two distinct reviewers from now on. RoleRequired below admin."""
        if not effects or not MAJOR.issuperset(effects):
            raise UserInputError(
                "four eyes are for effects that need an approval", remedy="name some of: " + ", ".join(sorted(MAJOR))
            )
        return self._set(PolicyKind.FOUR_EYES, actor, role, reason, at, {"effects": tuple(sorted(set(effects)))})

    def halt(self, actor: str, role: Role, reason: str, at: float) -> Policy:
        """Nothing is begun any more and running diagnostics are cancelled, until `resume`. RoleRequired below admin."""
        policy = self._set(PolicyKind.HALT, actor, role, reason, at, {})
        self._tell(f"halted by {actor}: {reason}. Nothing is begun until: lathe policy resume")
        return policy

    def resume(self, actor: str, role: Role, reason: str, at: float) -> None:
        """Everything goes on where it stood. NotFound when nothing is halted, RoleRequired below admin."""
        with self._database.begin() as connection:
            halt = load_policy(connection, PolicyKind.HALT)
        if halt is None:
            _require_admin(role)
            raise NotFound("nothing is halted", remedy="`lathe policy list` shows what is in force")
        self.revoke(halt.id, actor, role, reason, at)
        self._tell(f"{actor} lets everything go on{': ' if reason else ''}{reason}")

    def revoke(self, policy_id: int, actor: str, role: Role, reason: str, at: float) -> Policy:
        """It holds no longer; what it approved and nobody carried out yet is refused. RoleRequired below admin."""
        _require_admin(role)
        with self._database.begin() as connection:
            query = _POLICY.where(PolicyRow.id == policy_id, PolicyRow.revoked_at.is_(None)).with_for_update()
            if (row := connection.execute(query).one_or_none()) is None:
                raise NotFound(f"no policy {policy_id} is in force", remedy="`lathe policy list` shows those that are")
            _revoke(connection, Policy(**row._mapping), actor, reason, at)
            return Policy(**connection.execute(_POLICY.where(PolicyRow.id == policy_id)).one()._mapping)

    def list(self, *, in_force: bool = False) -> builtins.list[Policy]:
        """Newest first."""
        query = _POLICY.order_by(PolicyRow.id.desc())
        if in_force:
            query = query.where(PolicyRow.revoked_at.is_(None))
        with self._database.read() as connection:
            return [Policy(**row._mapping) for row in connection.execute(query)]

    def level(self, loop: str) -> AutonomyLevel:
        """How far the loop may go by itself; PROPOSE when nobody said anything."""
        with self._database.read() as connection:
            return level_of(connection, loop)

    def halted(self) -> Policy | None:
        """The kill switch, when it is on."""
        with self._database.read() as connection:
            return load_policy(connection, PolicyKind.HALT)

    def reviewers_needed(self, kind: EffectKind) -> int:
        """How many distinct persons have to approve an effect of this kind."""
        with self._database.read() as connection:
            return reviewers_needed(connection, kind)

    def _set(self, kind: PolicyKind, actor: str, role: Role, reason: str, at: float, values: dict[str, Any]) -> Policy:
        _require_admin(role)
        if not reason.strip():
            raise UserInputError("a policy needs its reason", remedy="say why with --reason")
        blank = {"loop": "", "level": None, "effects": (), "cpu_s": 0.0, "num_effects": 0, "revoked_by": ""}
        given = {"kind": kind, "reason": redact(reason), "set_by": actor, "set_at": at, **blank, **values}
        with self._database.begin() as connection:
            connection.execute(sa.text("LOCK TABLE policy IN SHARE ROW EXCLUSIVE MODE"))  # readers go on
            if (before := load_policy(connection, kind, str(given["loop"]))) is not None:
                _revoke(connection, before, actor, "another one takes its place", at)
            row = connection.execute(sa.insert(PolicyRow).values(**given).returning(*PolicyRow.__table__.columns)).one()
            policy = Policy(**row._mapping)
            if kind is PolicyKind.AUTONOMY:
                amount = {"cpu_s": policy.cpu_s, "reruns": policy.num_effects, "tokens": 0, "usd": 0.0, "wall_s": 0.0}
                budget = {"id": policy.budget_id, "parent_id": None, "closed": False, **amount}
                connection.execute(sa.insert(BudgetRow).values(**budget))
            _record(connection, policy, f"policy_set:{kind.value}", actor, reason, at)
        return policy

    def _tell(self, text: str) -> None:
        ActivityFeed(self._database).publish("approval", text)


_POLICY = sa.select(PolicyRow.__table__)


def load_policy(connection: sa.Connection, kind: PolicyKind, loop: str = "") -> Policy | None:
    """The one in force."""
    query = _POLICY.where(PolicyRow.kind == kind, PolicyRow.loop == loop, PolicyRow.revoked_at.is_(None))
    row = connection.execute(query).one_or_none()
    return None if row is None else Policy(**row._mapping)


def level_of(connection: sa.Connection, loop: str) -> AutonomyLevel:
    """See `Policies.level`."""
    policy = load_policy(connection, PolicyKind.AUTONOMY, loop)
    return AutonomyLevel.PROPOSE if policy is None or policy.level is None else policy.level


def reviewers_needed(connection: sa.Connection, kind: EffectKind) -> int:
    """See `Policies.reviewers_needed`."""
    policy = load_policy(connection, PolicyKind.FOUR_EYES)
    return 2 if policy is not None and kind.value in policy.effects else 1


def _check_autonomy(
    loop: str, level: AutonomyLevel, effects: frozenset[EffectKind], cpu_s: float, num_effects: int
) -> None:
    acts = level.includes(AutonomyLevel.ACT)
    if not loop.strip():
        raise UserInputError("autonomy is given to one loop", remedy="name it, for instance: debug")
    if acts != bool(effects) or acts != (num_effects > 0) or not 0.0 <= cpu_s < float("inf") or (cpu_s and not acts):
        raise UserInputError(
            f"the level {level} {'needs' if acts else 'has no'} list of effects with a budget",
            remedy="from `act` on name the effects, their number and their CPU seconds; below it none of them",
        )
    if not effects <= BY_POLICY:
        wrong = ", ".join(sorted(effects - BY_POLICY))
        raise UserInputError(f"no policy approves {wrong}", remedy="choose from: " + ", ".join(sorted(BY_POLICY)))
    if EffectKind.PROMOTE_SCAFFOLD in effects and not level.includes(AutonomyLevel.EVOLVE):
        raise UserInputError(
            f"the level {level} does not change scaffolds", remedy=f"the level {AutonomyLevel.EVOLVE} does"
        )
    if effects & _NEED_CPU and not cpu_s:
        raise UserInputError("a training, or a check, needs CPU seconds", remedy="say how many the policy may spend")


def _require_admin(role: Role) -> None:
    if not role.includes(Role.ADMIN):
        raise RoleRequired(f"a {role.value} may not change a policy", remedy="ask somebody with the role admin")


def _revoke(connection: sa.Connection, policy: Policy, actor: str, reason: str, at: float) -> None:
    update = sa.update(PolicyRow).where(PolicyRow.id == policy.id)
    connection.execute(update.values(revoked_by=actor, revoked_at=at))
    connection.execute(sa.update(BudgetRow).where(BudgetRow.id == policy.budget_id).values(closed=True))
    _record(connection, policy, f"policy_revoked:{policy.kind.value}", actor, reason, at)


def _record(connection: sa.Connection, policy: Policy, action: str, actor: str, reason: str, at: float) -> None:
    detail = {
        "reason": reason,
        "loop": policy.loop,
        "level": policy.level.value if policy.level else "",
        "effects": list(policy.effects),
        "cpu_s": policy.cpu_s,
        "num_effects": policy.num_effects,
    }
    subject = f"policy:{policy.id}"
    append_entry(connection, actor=actor, action=action, subject=subject, detail=detail, evidence=(), at=at)
