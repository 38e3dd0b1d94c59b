"""What each kind of object rests on, as SQL: the one place to add a link of "why do we believe this".

Each `Kind` has a title (what the object says), an owner, and links. All are SQL over one node `n (kind, id)`, with
`{num}` its id as a number, `{head}` the part of its id before the first `/`, and `{tail}` the part behind it. A link
selects (kind, id, slice) of what the object rests on; a title of NULL means that the object is not stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

MAX_LINKS = 200  # of one role from one object, and one more, which says that there are more

_NUM = "(CASE WHEN n.id ~ '^[0-9]{1,18}$' THEN n.id::bigint END)"
_HEAD = "split_part(n.id, '/', 1)"
_TAIL = "substr(n.id, strpos(n.id, '/') + 1)"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """`links`: role -> SELECT. `raw`: points, lines, fields or outputs themselves, where an explanation may end."""

    title: str
    owner: str = "NULL"
    links: Mapping[str, str] = field(default_factory=dict)
    raw: bool = False


def _references(table: str, where: str, column: str = "evidence") -> str:
    """The references (contracts.evidence) in an array column, taken apart."""
    return f"""
        SELECT split_part(r, ':', 1), unquoted(split_part(substr(r, strpos(r, ':') + 1), '#', 1)), split_part(r, '#', 2)
        FROM {table} t, unnest(t.{column}) AS r WHERE {where}
    """  # noqa: S608 - constants only


def _owner_of_run(run: str) -> str:
    return f"(SELECT r.owner FROM run r WHERE r.id = {run})"  # noqa: S608


def _owner_of_case(case: str) -> str:
    return f"""(SELECT coalesce(r.owner, i.owner) FROM investigation i LEFT JOIN run r ON r.id = i.run_id
        WHERE i.id = {case})"""  # noqa: S608


def _owner_of_commit(where: str) -> str:
    """Its author; what is not committed yet is its project's."""
    return f"""(SELECT coalesce(nullif(t.author, ''), p.owner) FROM code_commit t JOIN project p ON p.id = t.project_id
        WHERE {where} LIMIT 1)"""  # noqa: S608


def _in_case(column: str, what: str) -> str:
    return f"SELECT '{what}', t.investigation_id || '/' || t.key, '' FROM {what} t WHERE t.{column}"  # noqa: S608


_CASES: dict[str, Kind] = {
    "verdict": Kind(
        title="SELECT t.verdict || ' (' || t.scope || '): ' || t.statement FROM verdict t WHERE t.id = {num}",
        owner=_owner_of_case("(SELECT t.investigation_id FROM verdict t WHERE t.id = {num})"),
        links={
            "rests on": _references("verdict", "t.id = {num}"),
            "is about": """SELECT 'suspect', t.investigation_id || '/' || k, ''
                FROM verdict t, unnest(t.suspect_keys) AS k WHERE t.id = {num}""",
            "was found in": "SELECT 'investigation', t.investigation_id, '' FROM verdict t WHERE t.id = {num}",
        },
    ),
    "investigation": Kind(
        title="SELECT t.title FROM investigation t WHERE t.id = n.id",
        owner=_owner_of_case("n.id"),
        links={
            "explains": """SELECT 'anomaly', t.anomaly_id::text, '' FROM investigation_anomaly t
                WHERE t.investigation_id = n.id""",
            "examined": _in_case("investigation_id = n.id", "suspect"),
            "re-ran": _in_case("investigation_id = n.id", "diagnostic"),
            "looked at": "SELECT 'run', t.run_id, '' FROM investigation t WHERE t.id = n.id AND t.run_id IS NOT NULL",
        },
    ),
    "anomaly": Kind(
        title="SELECT t.statement FROM anomaly t WHERE t.id = {num}",
        owner=_owner_of_run("(SELECT t.run_id FROM anomaly t WHERE t.id = {num})"),
        links={
            "rests on": _references("anomaly", "t.id = {num}"),
            "was seen in": "SELECT 'run', t.run_id, t.onset_lo || '..' || t.onset_hi FROM anomaly t WHERE t.id = {num}",
        },
    ),
    "suspect": Kind(
        title="""SELECT t.title || coalesce(' - ' || t.status || ': ' || nullif(t.reason, ''), '') FROM suspect t
            WHERE t.investigation_id = {head} AND t.key = {tail}""",
        owner=_owner_of_case("{head}"),
        links={"rests on": _references("suspect", "t.investigation_id = {head} AND t.key = {tail}")},
    ),
    "diagnostic": Kind(
        title="""SELECT t.label || coalesce(': ' || nullif(t.reading, ''), '') FROM diagnostic t
            WHERE t.investigation_id = {head} AND t.key = {tail}""",
        owner=_owner_of_case("{head}"),
        links={
            "ran as": """SELECT 'run', t.run_id, '' FROM diagnostic t
                WHERE t.investigation_id = {head} AND t.key = {tail} AND t.run_id <> ''""",
            "was carried out by": """SELECT 'effect', t.effect_key, '' FROM diagnostic t
                WHERE t.investigation_id = {head} AND t.key = {tail} AND t.effect_key <> ''""",
        },
    ),
    "negative": Kind(
        title="SELECT t.claim || ' - ' || t.reason FROM negative_result t WHERE t.id = {num}",
        owner="(SELECT t.actor FROM negative_result t WHERE t.id = {num})",
        links={
            "rests on": _references("negative_result", "t.id = {num}"),
            "was found in": """SELECT 'investigation', t.investigation_id, '' FROM negative_result t
                WHERE t.id = {num} AND t.investigation_id IS NOT NULL""",
        },
    ),
}

_DECISIONS: dict[str, Kind] = {
    "proposal": Kind(
        title="SELECT t.title || ' (' || t.state || ')' FROM proposal t WHERE t.id = n.id",
        owner="(SELECT t.owner FROM proposal t WHERE t.id = n.id)",
        links={
            "rests on": _references("proposal", "t.id = n.id"),
            "was decided by": "SELECT 'approval', t.id::text, '' FROM approval t WHERE t.proposal_id = n.id",
            "came from": """SELECT 'investigation', t.investigation_id, '' FROM proposal t
                WHERE t.id = n.id AND t.investigation_id IS NOT NULL""",
            "replaces": "SELECT 'proposal', t.replaces, '' FROM proposal t"
            " WHERE t.id = n.id AND t.replaces IS NOT NULL",
        },
    ),
    "approval": Kind(
        title="SELECT 'approved by ' || t.actor || coalesce(': ' || nullif(t.comment, ''), '') FROM approval t"
        " WHERE t.id = {num}",
        owner="(SELECT t.actor FROM approval t WHERE t.id = {num})",
        links={
            "allows": "SELECT 'proposal', t.proposal_id, '' FROM approval t WHERE t.id = {num}",
            "was given by": "SELECT 'policy', t.policy_id::text, '' FROM approval t"
            " WHERE t.id = {num} AND t.policy_id IS NOT NULL",
        },
    ),
    "policy": Kind(
        title="SELECT t.kind || ' ' || t.loop || ': ' || t.reason FROM policy t WHERE t.id = {num}",
        owner="(SELECT t.set_by FROM policy t WHERE t.id = {num})",
    ),
    "effect": Kind(
        title="SELECT t.kind || ' (' || t.state || ')' FROM effect t WHERE t.key = n.id",
        owner="(SELECT t.actor FROM effect t WHERE t.key = n.id)",
        links={
            "was allowed by": "SELECT 'proposal', t.proposal_id, '' FROM effect t"
            " WHERE t.key = n.id AND t.proposal_id IS NOT NULL",
        },
    ),
    "experiment": Kind(
        title="SELECT t.title || ' (' || t.stage || ')' FROM experiment t WHERE t.id = n.id",
        owner="(SELECT t.opened_by FROM experiment t WHERE t.id = n.id)",
        links={
            "went on by": "SELECT 'proposal', t.proposal_id, '' FROM experiment_step t"
            " WHERE t.experiment_id = n.id AND t.proposal_id IS NOT NULL",
        },
    ),
    "ledger": Kind(
        title="SELECT t.actor || ': ' || t.action FROM ledger_entry t WHERE t.id = {num}",
        owner="(SELECT t.actor FROM ledger_entry t WHERE t.id = {num})",
        links={
            "rests on": _references("ledger_entry", "t.id = {num}"),
            "is about": _references("(SELECT id, ARRAY[subject] AS evidence FROM ledger_entry)", "t.id = {num}"),
        },
    ),
}

_MEASURED: dict[str, Kind] = {
    "run": Kind(
        title="SELECT t.name || ' (' || t.state || ' at step ' || t.last_step || ')' FROM run t WHERE t.id = n.id",
        owner=_owner_of_run("n.id"),
        links={
            "ran the code": "SELECT DISTINCT 'commit', t.code_version, '' FROM segment t"
            " WHERE t.run_id = n.id AND t.code_version <> ''",
            "started from": """SELECT DISTINCT 'checkpoint', c.run_id || '/' || c.segment || '/' || c.step, ''
                FROM segment t JOIN checkpoint c ON c.path = t.start_checkpoint
                WHERE t.run_id = n.id AND t.start_checkpoint <> ''""",
            "was forked from": "SELECT 'run', t.parent_run_id, '..' || t.parent_step FROM run t"
            " WHERE t.id = n.id AND t.parent_run_id IS NOT NULL",
            "was fed with": """SELECT DISTINCT 'subset', s.id, '' FROM config_value t
                JOIN subset s ON s.id = substr(t.key, length('data.mixture.') + 1)
                WHERE t.run_id = n.id AND starts_with(t.key, 'data.mixture.')""",
            "was logged in": "SELECT 'log', t.folder, '' FROM run t WHERE t.id = n.id AND t.folder <> ''",
        },
    ),
    "log": Kind(title="SELECT n.id", raw=True),
    "series": Kind(
        title="SELECT t.name || ' of ' || t.run_id FROM series t WHERE t.run_id = {head} AND t.name = {tail}",
        owner=_owner_of_run("{head}"),
        links={"was measured in": "SELECT 'run', t.id, '' FROM run t WHERE t.id = {head}"},
        raw=True,
    ),
    "config": Kind(
        # A field that was left out stands in the run it was forked from, an environment's in the segment that began.
        title="""SELECT {tail} || ' = ' || left(v.value, 200) FROM run r CROSS JOIN LATERAL (
            (SELECT t.value, t.run_id, t.segment, t.step FROM config_value t
                WHERE t.key = {tail} AND t.run_id IN (r.id, r.parent_run_id)
                ORDER BY t.run_id <> r.id, t.segment DESC, t.step DESC LIMIT 1)
            UNION ALL
            (SELECT 'in the environment', t.run_id, t.number, 0 FROM segment t
                WHERE t.run_id IN (r.id, r.parent_run_id) AND starts_with({tail}, 'environment.')
                AND strpos(t.environment, to_json(substr({tail}, length('environment.') + 1))::text || ':') > 0 LIMIT 1)
            ) AS v WHERE r.id = {head} LIMIT 1""",
        owner=_owner_of_run("{head}"),
        links={"was set in": "SELECT 'run', t.id, '' FROM run t WHERE t.id = {head}"},
        raw=True,
    ),
    "event": Kind(
        title="SELECT t.kind || ': ' || t.title FROM timeline_event t WHERE t.id = {num}",
        owner=_owner_of_run("(SELECT t.run_id FROM timeline_event t WHERE t.id = {num})"),
        links={"happened in": "SELECT 'run', t.run_id, t.step::text FROM timeline_event t WHERE t.id = {num}"},
        raw=True,
    ),
    "checkpoint": Kind(
        title="""SELECT t.path || ' sha256 ' || t.sha256 FROM checkpoint t
            WHERE t.run_id = {head} AND t.segment || '/' || t.step = {tail}""",
        owner=_owner_of_run("{head}"),
        links={"was saved by": "SELECT 'run', t.id, '' FROM run t WHERE t.id = {head}"},
        raw=True,
    ),
    "commit": Kind(
        title="SELECT t.subject || ' (' || t.author || ')' FROM code_commit t WHERE t.hash = n.id LIMIT 1",
        owner=_owner_of_commit("t.hash = n.id"),
        links={
            "changes": """SELECT DISTINCT 'hunk', left(t.commit, 12) || '/' || t.path,
                t.new_start || '..' || t.new_start + t.new_lines
                FROM code_commit c JOIN hunk t ON t.project_id = c.project_id AND t.commit = c.hash
                WHERE c.hash = n.id""",
        },
    ),
    "hunk": Kind(
        title="""SELECT t.path || ' in ' || c.subject FROM code_commit c
            JOIN hunk t ON t.project_id = c.project_id AND t.commit = c.hash AND t.path = {tail}
            WHERE {head} ~ '^([0-9a-f]{7,64}|worktree-[0-9a-f]{3,64})$'
            AND c.hash ~>=~ {head} AND c.hash ~<~ ({head} || '~') LIMIT 1""",
        owner=_owner_of_commit("t.hash ~>=~ {head} AND t.hash ~<~ ({head} || '~')"),
        raw=True,
    ),
}

_SCORES_AND_DATA: dict[str, Kind] = {
    "score": Kind(
        title="""SELECT t.benchmark || ' ' || t.metric || ' = ' || t.value || coalesce(' +- ' || t.stderr, '')
            || ' (' || t.protocol || ', ' || t.harness || ')' FROM score t WHERE t.id = {num}""",
        owner="(SELECT t.owner FROM score t WHERE t.id = {num})",
        links={
            "was read off": "SELECT 'output', t.raw, t.raw_sha256 FROM score t WHERE t.id = {num} AND t.raw <> ''",
            "scores": """SELECT 'checkpoint', c.run_id || '/' || c.segment || '/' || c.step, '' FROM score t
                JOIN checkpoint c ON c.run_id = t.run_id AND c.step = t.step AND c.segment = t.segment
                WHERE t.id = {num}""",
            "scores the weights": """SELECT 'weights', t.checkpoint, '' FROM score t WHERE t.id = {num}
                AND NOT EXISTS (SELECT FROM checkpoint c
                    WHERE c.run_id = t.run_id AND c.step = t.step AND c.segment = t.segment)""",
            "was trained as": "SELECT 'run', t.run_id, '..' || t.step FROM score t"
            " WHERE t.id = {num} AND t.run_id IS NOT NULL",
            "was made by": """SELECT 'commit', c.hash, '' FROM score t
                JOIN code_commit c ON c.project_id = t.project_id AND c.hash = t.recipe WHERE t.id = {num}""",
            "was made by the recipe": """SELECT 'recipe', t.recipe, '' FROM score t WHERE t.id = {num}
                AND NOT EXISTS (SELECT FROM code_commit c WHERE c.project_id = t.project_id AND c.hash = t.recipe)""",
            "was measured on": "SELECT 'benchmark', b.id, '' FROM score t JOIN benchmark b ON b.id = t.benchmark"
            " WHERE t.id = {num}",
        },
    ),
    "output": Kind(title="SELECT n.id", raw=True),
    "weights": Kind(title="SELECT n.id", raw=True),
    "recipe": Kind(title="SELECT n.id", raw=True),
    "benchmark": Kind(
        title="SELECT t.title || ' (' || t.num_items || ' items)' FROM benchmark t WHERE t.id = n.id",
        owner="(SELECT t.owner FROM benchmark t WHERE t.id = n.id)",
        links={
            "was searched for in": "SELECT 'decontamination', t.id::text, '' FROM decontamination t"
            " WHERE t.benchmark_id = n.id",
        },
    ),
    "decontamination": Kind(
        title="""SELECT t.corpus || ': ' || t.num_leaked_items || ' of ' || t.num_items || ' items leaked' FROM
            decontamination t WHERE t.id = {num}""",
        owner="(SELECT t.owner FROM decontamination t WHERE t.id = {num})",
        links={"compares with": "SELECT 'benchmark', t.benchmark_id, '' FROM decontamination t WHERE t.id = {num}"},
    ),
    "pipeline": Kind(
        title="SELECT t.title FROM pipeline t WHERE t.id = n.id",
        owner="(SELECT t.owner FROM pipeline t WHERE t.id = n.id)",
    ),
    "subset": Kind(
        title="SELECT 'from ' || t.source FROM subset t WHERE t.id = n.id",
        owner="(SELECT t.owner FROM subset t WHERE t.id = n.id)",
        links={
            "was made by": "SELECT 'pipeline', t.pipeline_id, '' FROM subset t WHERE t.id = n.id",
            "went through": """SELECT DISTINCT 'commit', c.hash, '' FROM stage_trace t
                JOIN code_commit c ON c.hash = t.code_version WHERE t.subset_id = n.id""",
            "left behind": "SELECT 'output', t.output, t.output_sha256 FROM stage_trace t"
            " WHERE t.subset_id = n.id AND t.output <> ''",
            "was derived from": "SELECT 'subset', p, '' FROM subset t, unnest(t.parents) AS p WHERE t.id = n.id",
        },
    ),
    "document": Kind(
        title="SELECT 'from ' || t.source FROM document t WHERE t.id = n.id",
        owner="(SELECT s.owner FROM document t JOIN subset s ON s.id = t.subset_id WHERE t.id = n.id)",
        links={"is in": "SELECT 'subset', t.subset_id, '' FROM document t WHERE t.id = n.id"},
        raw=True,
    ),
}

_SAID: dict[str, Kind] = {
    "memory": Kind(
        title="SELECT t.key || ': ' || t.text FROM memory_entry t WHERE t.id = {num}",
        owner="(SELECT t.author FROM memory_entry t WHERE t.id = {num})",
        links={"rests on": _references("memory_entry", "t.id = {num}")},
    ),
    "thread": Kind(
        title="SELECT t.title FROM chat_thread t WHERE t.id = n.id",
        owner="(SELECT t.created_by FROM chat_thread t WHERE t.id = n.id)",
        raw=True,
    ),
    "schedule": Kind(
        title="SELECT t.action || ': ' || t.reason FROM schedule t WHERE t.id = {num}",
        owner="(SELECT t.set_by FROM schedule t WHERE t.id = {num})",
    ),
}

KINDS: dict[str, Kind] = {**_CASES, **_DECISIONS, **_MEASURED, **_SCORES_AND_DATA, **_SAID}

# Who wrote about it, newest first. What is written about a run, a commit or a series is not why it is believed.
_LEDGER = """
    SELECT 'ledger', t.id::text, '' FROM (SELECT id FROM ledger_entry
    WHERE subject = n.kind || ':' || n.id ORDER BY id DESC LIMIT 20) AS t
    WHERE n.kind NOT IN ('ledger', 'run', 'commit', 'series', 'config', 'event', 'hunk', 'log', 'output', 'weights',
        'recipe')
"""


def links_sql() -> str:
    """SELECT (role, kind, id, slice) of everything that node `n` rests on."""
    parts = [
        f"(SELECT '{role}', l.* FROM ({sql}) AS l WHERE n.kind = '{name}' LIMIT {MAX_LINKS + 1})"  # noqa: S608
        for name, kind in KINDS.items()
        for role, sql in kind.links.items()
    ]
    parts.append(f"(SELECT 'is in the ledger as', l.* FROM ({_LEDGER}) AS l)")  # noqa: S608
    return _filled(" UNION ALL ".join(parts))


def title_sql(names: Collection[str] = KINDS) -> str:
    """An expression: what node `n`, of one of these kinds, says; NULL when it is not stored."""
    return _filled(_case({name: f"({KINDS[name].title})" for name in names}))


def owner_sql() -> str:
    """An expression: who answers for node `n`."""
    return _filled(_case({name: kind.owner for name, kind in KINDS.items()}))


def _case(values: Mapping[str, str]) -> str:
    cases = " ".join(f"WHEN '{name}' THEN {value}" for name, value in values.items())
    return f"CASE n.kind {cases} END"


def _filled(sql: str) -> str:
    return sql.replace("{num}", _NUM).replace("{head}", _HEAD).replace("{tail}", _TAIL).replace("%", "%%")
