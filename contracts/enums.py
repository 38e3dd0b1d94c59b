"""Closed sets of words. Their values are stored, so they never change meaning."""

from __future__ import annotations

from enum import StrEnum


class CauseKind(StrEnum):
    """What kind of change or circumstance explains an anomaly."""

    CODE = "code"
    CONFIG = "config"
    DATA = "data"
    ENVIRONMENT = "environment"
    HARDWARE = "hardware"
    RESUME = "resume"
    MEASUREMENT = "measurement"
    INTERACTION = "interaction"
    NONE = "none"


class Verdict(StrEnum):
    """Outcome of an investigation or of one suspect. Never shown without its scope."""

    PROVEN = "proven"
    REFUTED = "refuted"
    CANNOT_TELL = "cannot_tell"
    NOTHING_FOUND = "nothing_found"


class Scope(StrEnum):
    """How far a verdict reaches; it is never widened (design section 5)."""

    THIS_RUN = "this_run"
    SAME_CODE_SMALL = "same_code_small"
    EMBEDDED_PROXY = "embedded_proxy"
    OBSERVED = "observed"


class SignalStrength(StrEnum):
    """Class of a loop's measure, strongest first (R801-1.2)."""

    FORMAL_CHECK = "formal_check"
    PAIRED_RERUN = "paired_rerun"
    HELD_OUT_SCORE = "held_out_score"
    STRONG_MODEL_JUDGEMENT = "strong_model_judgement"
    SELF_RATING = "self_rating"


class DiagnosticKind(StrEnum):
    """The role a diagnostic execution plays in a proof."""

    REPLAY = "replay"  # A/A: the same code from the same checkpoint
    CONTROL = "control"  # the last code version known to be good
    REVERT = "revert"  # the faulty version without the suspect
    ADD = "add"  # the good version with the suspect
    PLACEBO = "placebo"  # the faulty version without an innocent change
    COMBINATION = "combination"  # a cell of a 2x2
    FRESH_SEED = "fresh_seed"  # one side of a seed pair
    SWAP = "swap"  # two ranks in each other's place
    PROXY = "proxy"  # a smaller training; it points, it never proves


class EffectKind(StrEnum):
    """What the executor can carry out."""

    DIAGNOSTIC_RUN = "diagnostic_run"
    CASE_WORK = "case_work"  # a piece of a case's own work that trains no run: label, fit, score, judge a candidate
    START_RUN = "start_run"
    STOP_RUN = "stop_run"
    PAUSE_RUN = "pause_run"
    UNPAUSE_RUN = "unpause_run"
    CHECKPOINT_RUN = "checkpoint_run"
    RESUME_WITH_PATCH = "resume_with_patch"
    PATCH_CODE = "patch_code"
    PATCH_CONFIG = "patch_config"  # a configuration file of a project, on a branch
    PATCH_DATA = "patch_data"  # a stage of a project's data pipeline, on a branch
    PROMOTE_SCAFFOLD = "promote_scaffold"  # a ref of a scaffold moves from one commit to another
    OPEN_SEAL = "open_seal"  # both ends of an evolution run on its sealed tasks, once
    DEPLOY_CLASSIFIER = "deploy_classifier"  # the pointer of a classifier's name moves to a version
    NOTIFY = "notify"
    UNDO = "undo"  # of an effect that was carried out under an approval
    NEXT_STAGE = "next_stage"  # an outer edge of a dual loop; the store itself passes it, once a person has approved


class EffectState(StrEnum):
    REQUESTED = "requested"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"


class ProposalState(StrEnum):
    OPEN = "open"  # also with a first approval, where two are needed
    APPROVED = "approved"
    REJECTED = "rejected"
    CHANGES_ASKED = "changes_asked"
    SUPERSEDED = "superseded"  # by the proposal that an edit made of it
    EXPIRED = "expired"


class AutonomyLevel(StrEnum):
    """What a loop may do without a person (RM2-7.9); each includes the rights of those before it."""

    OBSERVE = "observe"  # look at what is recorded; no diagnostics
    PROPOSE = "propose"  # diagnostics within the case's budget, and proposals that wait for a person
    ACT = "act"  # the effects that its policy lists, within that policy's budget
    EVOLVE = "evolve"  # as ACT, also for changes of the loop's own scaffold

    def includes(self, other: AutonomyLevel) -> bool:
        """True when this level allows what `other` allows."""
        order = list(AutonomyLevel)
        return order.index(self) >= order.index(other)


class PolicyKind(StrEnum):
    """What a stored policy decides."""

    AUTONOMY = "autonomy"  # how far one loop may go by itself
    FOUR_EYES = "four_eyes"  # which effects need two reviewers
    HALT = "halt"  # nothing is begun


class ScheduleAction(StrEnum):
    """What a worker does at intervals (context_store.schedules)."""

    WATCH = "watch"
    MEASURE = "measure"  # the potential of runs whose checkpoints have grown enough
    BACKUP = "backup"
    EXPIRE = "expire"


class TriageKind(StrEnum):
    """What a person says about a finding (context_store.triage)."""

    ACKNOWLEDGED = "acknowledged"  # somebody has seen it
    SNOOZED = "snoozed"  # not before a later time
    MUTED = "muted"  # never again, wherever it begins in this run
    FALSE_ALARM = "false_alarm"
    REOPENED = "reopened"  # what was said before no longer counts


class Stage(StrEnum):
    """Stages of an experiment's dual loop (RM2-7.18, Figure 8B)."""

    PLAN = "plan"
    DEVELOP = "develop"
    ANALYSE = "analyse"
    REVIEW = "review"
    ITERATE = "iterate"
    ENDED = "ended"


class RunState(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"


class RunRole(StrEnum):
    """Why a run exists: a training somebody wanted, or a diagnostic of a loop."""

    TRAINING = "training"
    DIAGNOSTIC = "diagnostic"


class InvestigationState(StrEnum):
    OPEN = "open"
    WAITING_FOR_APPROVAL = "waiting_for_approval"
    CLOSED = "closed"


class TimelineKind(StrEnum):
    """Kinds of step-indexed change or happening."""

    CONFIG = "config"
    CODE = "code"
    DATA = "data"
    ENVIRONMENT = "environment"
    RESUME = "resume"
    FORK = "fork"
    CHECKPOINT = "checkpoint"
    EVAL = "eval"
    APPROVAL = "approval"
    NOTE = "note"


class MemoryKind(StrEnum):
    """What a remembered entry is (RM2-7.14)."""

    CONVENTION = "convention"
    FACT = "fact"
    DECISION = "decision"
    FAILURE = "failure"


class Role(StrEnum):
    """Who may do what; each includes the rights of those before it."""

    VIEWER = "viewer"
    RESEARCHER = "researcher"
    REVIEWER = "reviewer"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        """True when this role may do what `other` may."""
        order = list(Role)
        return order.index(self) >= order.index(other)
