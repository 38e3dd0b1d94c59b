"""Under which circumstances something was ruled out or failed, so that other circumstances can be told apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from context_store import Store
from contracts.events import Scalar
from loops.debug.case import Case
from loops.debug.suspects import Factor

_MIXTURE = "data.mixture"
_MOST_FIELDS = 20  # of one suspect; a commit may read all of the configuration
_SIZES = (  # last parts of declared fields that say how large model and batch are, in the names of common trainers
    "num_layers", "n_layer", "n_layers", "num_hidden_layers", "d_model", "n_embd", "hidden_size", "num_experts",
    "seq_len", "block_size", "batch_size",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """`context`: run, step, kind of anomaly, and the declared value of each field of the suspects. "": not known."""

    context: Mapping[str, Scalar]
    scale: str
    data: str
    code_version: str


def circumstances(store: Store, case: Case, suspects: Iterable[str] = ()) -> Circumstances:
    """Those of the segment in which the anomaly began; `suspects` are keys of the scene's factors."""
    scene, leading = case.scene, case.leading
    declared = scene.segment.declared if scene else {}
    keys = set(suspects)
    factors = [factor for factor in scene.factors if factor.key in keys] if scene else []
    return Circumstances(
        context={
            "run": case.run_id,
            "anomaly_kind": leading.kind,
            "series": leading.series[0] if leading.series else "",
            "onset": leading.onset[0],
            **{name: declared[name] for name in _fields_of(store, case.project_id, factors) if name in declared},
        },
        scale=_told((key, declared[key]) for key in sorted(declared) if key.rpartition(".")[2] in _SIZES),
        data=_told(_mixture({**declared, **scene.segment.effective}) if scene else ()),
        code_version=scene.faulty if scene else "",
    )


def _fields_of(store: Store, project_id: str, factors: Sequence[Factor]) -> list[str]:
    """What the suspects changed, and what their hunks read where that was linked; the changed ones first."""
    changed = [change.key for factor in factors for change in factor.fields]
    hashes = [commit for factor in factors for commit in factor.commits]
    read = [link.field for commit in hashes for link in store.links.of_commit(project_id, commit) if link.field]
    return list(dict.fromkeys((*changed, *read)))[:_MOST_FIELDS]


def _mixture(values: Mapping[str, Scalar]) -> Iterable[tuple[str, Scalar]]:
    """Weights by source; the effective ones, where the training said them, count more than the declared ones."""
    return [(key, value) for key, value in sorted(values.items()) if key == _MIXTURE or key.startswith(f"{_MIXTURE}.")]


def _told(facts: Iterable[tuple[str, Scalar]]) -> str:
    return ", ".join(f"{key} {value}" for key, value in facts)
