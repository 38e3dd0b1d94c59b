"""Roles of a team that trains a model (R801-3.9): two sides, one store; who supplies which finding."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from contracts.enums import CauseKind


class Side(StrEnum):
    INFRASTRUCTURE = "infrastructure"
    DATA = "data"


class TeamRole(StrEnum):
    """Stored with what it supplied, so the values never change meaning."""

    INFRASTRUCTURE_CODER = "infrastructure_coder"  # code versions, environment, machines
    MODEL_TRAINER = "model_trainer"  # configuration fields, starts, resumes and re-runs; on both sides
    METRIC_INSPECTOR = "metric_inspector"  # internal metrics
    PIPELINE_DEVELOPER = "pipeline_developer"  # subsets, pipelines, stages, mixtures
    OUTPUT_INSPECTOR = "output_inspector"  # evaluations, and what the model writes

    @property
    def sides(self) -> frozenset[Side]:
        return _SIDES[self]

    @property
    def words(self) -> str:
        """As people write it."""
        return self.value.replace("_", " ")


_SIDES: Mapping[TeamRole, frozenset[Side]] = {
    TeamRole.INFRASTRUCTURE_CODER: frozenset({Side.INFRASTRUCTURE}),
    TeamRole.MODEL_TRAINER: frozenset({Side.INFRASTRUCTURE, Side.DATA}),
    TeamRole.METRIC_INSPECTOR: frozenset({Side.INFRASTRUCTURE}),
    TeamRole.PIPELINE_DEVELOPER: frozenset({Side.DATA}),
    TeamRole.OUTPUT_INSPECTOR: frozenset({Side.DATA}),
}
SUPPLIER: Mapping[CauseKind, TeamRole] = {  # of a suspect, by what kind of change or circumstance it is
    CauseKind.CODE: TeamRole.INFRASTRUCTURE_CODER,
    CauseKind.CONFIG: TeamRole.MODEL_TRAINER,
    CauseKind.DATA: TeamRole.PIPELINE_DEVELOPER,
    CauseKind.ENVIRONMENT: TeamRole.INFRASTRUCTURE_CODER,
    CauseKind.HARDWARE: TeamRole.INFRASTRUCTURE_CODER,
    CauseKind.RESUME: TeamRole.MODEL_TRAINER,
    CauseKind.MEASUREMENT: TeamRole.METRIC_INSPECTOR,
    CauseKind.INTERACTION: TeamRole.MODEL_TRAINER,
    CauseKind.NONE: TeamRole.METRIC_INSPECTOR,
}
