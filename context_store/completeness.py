"""Which kinds of evidence the store has, which it lacks, and who answers for them (R801-2.2)."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from context_store.database import Database, driver
from context_store.records import UNKNOWN_OWNER


@dataclass(frozen=True, kw_only=True)
class KindCount:
    """`remedy`: how this kind of evidence comes into the store."""

    kind: str
    what: str
    count: int
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """`unowned`: projects of which nobody knows who answers for them (R801-2.2)."""

    kinds: tuple[KindCount, ...]
    unowned: tuple[str, ...]

    @property
    def missing(self) -> tuple[KindCount, ...]:
        """Kinds without a single record."""
        return tuple(each for each in self.kinds if each.count == 0)


@dataclass(frozen=True, kw_only=True)
class _Kind:
    what: str
    query: str
    remedy: str


# `{mine}` becomes the condition that `r` belongs to the project.
_OF_RUNS = "SELECT count(*) FROM {table} t JOIN run r ON r.id = t.run_id WHERE {mine}"
_TRAIN = "the training logs it: clients/lathe_log, or import its log with `lathe ingest`"
_DATA = "bring a catalogue of pipelines, subsets and documents: `lathe data load FILE`"
_SCORE = "import a log of lm-eval or inspect, saying its run and step"
_OF_A_MIXTURE = "t.kind = 'data' AND starts_with(coalesce(search_field(t.detail, 'key'), ''), 'data.mixture.')"
_SCORED_AFTER = "EXISTS (SELECT FROM score s WHERE s.run_id = t.run_id AND s.step >= t.step)"
_CASE = "`lathe detect RUN` and `lathe diagnose RUN` store it"


def _of_runs(table: str, what: str, remedy: str, where: str = "TRUE") -> _Kind:
    query = f"{_OF_RUNS.replace('{table}', table)} AND {where}"
    return _Kind(what=what, query=query, remedy=remedy)


def _of_projects(table: str, what: str, remedy: str) -> _Kind:
    query = f"SELECT count(*) FROM {table} r WHERE {{mine}}"  # noqa: S608 - constants only
    return _Kind(what=what, query=query, remedy=remedy)


def _of_cases(table: str, what: str, remedy: str = _CASE, where: str = "TRUE") -> _Kind:
    query = f"""SELECT count(*) FROM {table} t JOIN investigation r ON r.id = t.investigation_id
        WHERE {{mine}} AND {where}"""  # noqa: S608 - constants only
    return _Kind(what=what, query=query, remedy=remedy)


def _of_all(table: str, what: str, remedy: str, where: str = "TRUE") -> _Kind:
    """Not of one project: counted whole."""
    return _Kind(what=what, query=f"SELECT count(*) FROM {table} WHERE {where}", remedy=remedy)  # noqa: S608


_KINDS: dict[str, _Kind] = {
    "series": _of_runs("series", "measured quantities", _TRAIN),
    "layer series": _of_runs("series", "quantities by layer", _TRAIN, "t.layer IS NOT NULL"),
    "layer losses": _of_runs(
        "series", "losses by layer", _TRAIN, "t.layer IS NOT NULL AND t.statistic ~ '(^|_)loss$'"
    ),
    "gradient norms": _of_runs(
        "series", "gradient norms by module", _TRAIN, "t.statistic = 'grad_norm' AND t.module <> ''"
    ),
    "expert load": _of_runs("series", "load by expert", _TRAIN, "starts_with(t.statistic, 'expert_load')"),
    "config": _of_runs("config_value", "configuration fields", _TRAIN, "t.source = 'declared'"),
    "effective config": _of_runs("config_value", "values really used", _TRAIN, "t.source = 'effective'"),
    "config changes": _of_runs("timeline_event", "hyperparameter changes", _TRAIN, "t.kind = 'config'"),
    "mixtures": _of_runs("config_value", "mixture weights", _TRAIN, "starts_with(t.key, 'data.mixture.')"),
    "mixture changes": _of_runs("timeline_event", "mixture weights that were changed", _TRAIN, _OF_A_MIXTURE),
    "data changes": _of_runs("timeline_event", "revisions of the data, mixtures too", _TRAIN, "t.kind = 'data'"),
    "evaluated data changes": _of_runs(
        "timeline_event", "revisions of the data with a score of the run after them", _SCORE,
        f"t.kind = 'data' AND {_SCORED_AFTER}",
    ),
    "data order": _of_runs("data_read", "identity of the samples read", _TRAIN),
    "environment": _of_runs("segment", "segments with their environment", _TRAIN, "t.environment <> '{}'"),
    "environment changes": _of_runs(
        "timeline_event", "changes of hosts, drivers, packages", "`lathe environment record RUN`",
        "t.kind = 'environment'",
    ),
    "checkpoints": _of_runs("checkpoint", "checkpoints with their hash", _TRAIN),
    "executed code": _of_runs("executed_file", "files a training imported", _TRAIN),
    "commits": _of_projects("code_commit", "code versions", "the project's repository is read at each training"),
    "hunks": _of_projects("hunk", "changes of code", "the project's repository is read at each training"),
    "hunk links": _of_projects("hunk_field", "fields that changes of code read", "`lathe code link PROJECT`"),
    "scores": _of_projects("score", "scores with lineage", "`lathe ingest` a log of lm-eval or inspect"),
    "checkpoint scores": _of_projects(
        "(SELECT project_id FROM score WHERE step IS NOT NULL)", "scores of intermediate checkpoints", _SCORE
    ),
    "raw outputs": _of_projects(
        "(SELECT project_id FROM score WHERE raw <> '')", "output samples: scores whose single outputs are kept",
        "import the log together with its samples",
    ),
    "pipelines": _of_all("pipeline", "data pipelines", _DATA),
    "subsets": _of_all("subset", "data subsets with their stages", _DATA),
    "stage intermediates": _of_all("stage_trace", "intermediate results kept", _DATA, "output <> ''"),
    "documents": _of_all("document", "documents before and after each stage", _DATA),
    "benchmarks": _of_all("benchmark", "registered benchmarks", "`lathe data register NAME FILE`"),
    "decontamination": _of_all("decontamination", "corpora compared with a benchmark", "`lathe data decontaminate`"),
    "anomalies": _of_runs("anomaly", "findings", _CASE),
    "investigations": _of_projects("investigation", "cases", _CASE),
    "verdicts": _of_cases("verdict", "verdicts"),
    "diagnostics": _of_cases("diagnostic", "re-runs"),
    "exclusions": _of_cases("suspect", "causes ruled out", where="t.status = 'refuted'"),
    "negative results": _of_projects("negative_result", "what did not hold", "`lathe negatives add`"),
    "case work": _of_cases("case_work", "what loops asked and measured", "start a case of another loop than debug"),
    "proposals": _of_cases("proposal", "proposals"),
    "decisions": _of_all("approval", "approvals", "`lathe proposals approve`"),
    "ledger": _of_all("ledger_entry", "who did what on which evidence", "every loop writes it"),
}  # fmt: skip


class Completeness:
    """`store.completeness`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def report(self, project_id: str | None = None) -> Report:
        """Records of each kind, of one project or of all; data, benchmarks, approvals and ledger belong to none."""
        mine = "(%(project)s::text IS NULL OR r.project_id = %(project)s)"
        kinds = []
        with self._database.snapshot() as connection:
            for name, kind in _KINDS.items():
                row = driver(connection).execute(kind.query.replace("{mine}", mine), {"project": project_id}).fetchone()
                assert row is not None
                kinds.append(KindCount(kind=name, what=kind.what, count=row[0], remedy=kind.remedy))
            unowned = connection.execute(_UNOWNED, {"project": project_id, "nobody": UNKNOWN_OWNER}).scalars().all()
        return Report(kinds=tuple(kinds), unowned=tuple(unowned))


_UNOWNED = sa.text(
    "SELECT id FROM project WHERE owner = :nobody AND (CAST(:project AS text) IS NULL OR id = :project) ORDER BY id"
)
