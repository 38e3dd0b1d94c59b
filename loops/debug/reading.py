"""What changes of code read: hunk -> configuration field -> statistic, as `store.links` keeps it (R801-3.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from context_store import Store
from context_store.links import HunkLink, family
from context_store.records import Anomaly
from contracts.errors import RepositoryError
from contracts.evidence import EvidenceRef
from loops.debug.suspects import Scene
from loops.debug.topics import TOPICS

_DIRECT = "a changed line reads"
_AROUND = 0.5  # of a field that only the changed definition reads, in lines that stayed
_MAX_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class FieldReads:
    """The fields through which a change bears on what departs; `strength` 1.0 when a changed line itself reads one."""

    strength: float
    reason: str
    evidence: tuple[EvidenceRef, ...]


def link_scene(store: Store, scene: Scene) -> None:
    """Link the scene's commits with the fields and series that the project's runs have by now.

    Where the repository is not at hand, links that were stored before stay.
    """
    commits = [factor.commit.hash for factor in scene.factors if factor.commit is not None]
    if commits:
        with suppress(RepositoryError):
            repository = Path(store.projects.get(scene.project_id).path)
            store.links.link(scene.project_id, repository, TOPICS, commits)


def field_reads(store: Store, scene: Scene, anomaly: Anomaly) -> Mapping[str, FieldReads]:
    """By commit, for those commits of the scene that read a field which bears on a series of the anomaly."""
    commits = [factor.commit.hash for factor in scene.factors if factor.commit is not None]
    found: dict[str, list[HunkLink]] = {}
    for name in sorted({family(series) for series in anomaly.series}) if commits else ():
        for link in store.links.bearing_on(scene.project_id, name, commits):
            if link.field in scene.segment.declared:
                found.setdefault(link.commit, []).append(link)
    return {commit: _summed_up(scene, links) for commit, links in found.items()}


def _summed_up(scene: Scene, links: Sequence[HunkLink]) -> FieldReads:
    ordered = sorted(links, key=lambda link: not link.how.startswith(_DIRECT))
    by_field = {link.field: link for link in reversed(ordered)}
    named = list(dict.fromkeys(link.field for link in ordered))[:_MAX_NAMED]
    told = [f"{by_field[name].how.partition(';')[0]}, and {name} bears on {by_field[name].statistic}" for name in named]
    place = str(scene.segment.number)
    return FieldReads(
        strength=1.0 if ordered[0].how.startswith(_DIRECT) else _AROUND,
        reason="; ".join(told),
        evidence=tuple(EvidenceRef(kind="config", id=f"{scene.run_id}/{name}", slice=place) for name in named),
    )
