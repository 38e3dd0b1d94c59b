"""Where data came from. Shows R801-2.8 (1,053 subsets, lineage, a document before and after each stage), R801-8.2."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from training_log import Training, started, steps

from context_store import Store
from context_store.records import (
    Level,
    MixtureEvent,
    NewDocument,
    Pipeline,
    Stage,
    StageTrace,
    StageVersion,
    Subset,
)
from contracts.errors import NotFound, UserInputError
from contracts.events import Effective, Scalar

NAMES = ("web", "code", "math", "pdf", "qa", "agent")
STAGES = (
    Stage(key="crawl", level=Level.L0, title="download"),
    Stage(key="text", level=Level.L1, title="text from HTML"),
    Stage(key="rules", level=Level.L2, title="drop garbled text"),
    Stage(key="classify", level=Level.L3, title="quality classifier"),
    Stage(key="repair", level=Level.L4, title="repair"),
    Stage(key="complete", level=Level.L5, title="fill gaps"),
)


def pipeline(name: str = "web", **more: Any) -> Pipeline:
    fields: dict[str, Any] = {"id": name, "title": f"{name} pages", "stages": STAGES, "owner": "data team"}
    return Pipeline(**fields | more)


def trace(version: str = "v1", num: int = 100) -> tuple[StageTrace, ...]:
    return tuple(
        StageTrace(
            stage=stage.key,
            code_version=version,
            num_in=num - n,
            num_out=num - n - 1,
            output=f"/data/{stage.key}.jsonl",
            output_sha256=f"sha-{n}",
        )
        for n, stage in enumerate(STAGES)
    )


def subset(name: str, pipeline_id: str = "web", **more: Any) -> Subset:
    fields: dict[str, Any] = {"source": f"https://example.org/{name}", "owner": "data team", "trace": trace()}
    return Subset(id=name, pipeline_id=pipeline_id, num_documents=94, num_tokens=5000, **fields | more)


@pytest.fixture
def catalog(store: Store) -> Store:
    """Six pipelines of six stages, each stage in one version."""
    for name in NAMES:
        store.data.put_pipeline(pipeline(name))
        for stage in STAGES:
            store.data.put_stage_version(StageVersion(pipeline_id=name, stage=stage.key, code_version="v1"))
    return store


def test_1053_subsets_with_their_lineage(catalog: Store) -> None:
    subsets = [subset(f"s{n:04d}", NAMES[n % 6]) for n in range(1000)]
    derived = [subset(f"t{n:04d}", NAMES[n % 6], parents=(f"s{n:04d}", f"s{n + 1:04d}")) for n in range(53)]
    assert catalog.data.put_subsets(subsets + derived) == 1053
    assert catalog.data.put_subsets(derived) == 0
    assert len(catalog.data.subsets()) == 1053
    assert catalog.data.subset("t0007") == derived[7]
    web = catalog.data.subsets("web")
    assert {each.pipeline_id for each in web} == {"web"}
    assert web[0].trace == trace()
    stages = {(name, stage.key) for name in NAMES for stage in catalog.data.pipeline(name).stages}
    assert len(stages) > 30


def test_a_pipeline_grows_at_its_end_only(catalog: Store) -> None:
    more = (*STAGES, Stage(key="synthesis", level=Level.L9, title="open slot"))
    assert catalog.data.put_pipeline(pipeline(stages=more, title="pages")) == pipeline(stages=more, title="pages")
    for stages, what in ((STAGES[1:], "already"), ((STAGES[1], STAGES[0]), "already"), ((*more, STAGES[0]), "twice")):
        with pytest.raises(UserInputError, match=what):
            catalog.data.put_pipeline(pipeline(stages=stages))
    assert [each.id for each in catalog.data.pipelines()] == sorted(NAMES)


def test_a_stage_version_keeps_its_settings(catalog: Store) -> None:
    version = StageVersion(pipeline_id="web", stage="rules", code_version="v2", settings={"min_words": 5})
    catalog.data.put_stage_version(version)
    catalog.data.put_stage_version(version)
    assert version in catalog.data.stage_versions("web")
    with pytest.raises(UserInputError, match="other settings"):
        catalog.data.put_stage_version(dataclasses.replace(version, settings={"min_words": 6}))
    with pytest.raises(NotFound):
        catalog.data.put_stage_version(dataclasses.replace(version, stage="unknown"))


def test_what_nobody_owns_or_made_is_refused(catalog: Store) -> None:
    for bad, what in (
        (subset("a", owner=" "), "owner"),
        (subset("a", trace=()), "no stage"),
        (subset("a", parents=("nowhere",)), "nowhere"),
    ):
        with pytest.raises(UserInputError, match=what):
            catalog.data.put_subsets([subset("sound"), bad])
    with pytest.raises(UserInputError, match="owner"):
        catalog.data.put_pipeline(pipeline(owner=""))
    for bad in (subset("a", "unknown"), subset("a", trace=trace("v9"))):
        with pytest.raises(NotFound):
            catalog.data.put_subsets([subset("sound"), bad])
    assert catalog.data.subsets() == [], "all or nothing"
    with pytest.raises(NotFound, match="'a'"):
        catalog.data.subset("a")


def test_a_document_resolves_to_its_source_and_its_text_around_each_stage(catalog: Store) -> None:
    catalog.data.put_subsets([subset("s")])
    texts = ("<p>Größe 1</p>", "Größe 1", "Größe 1", None, None, None)
    reasons = {3: "quality 0.1 < 0.5"}
    document = NewDocument(id="d-1", subset_id="s", source="https://example.org/1", texts=texts, reasons=reasons)
    whole = dataclasses.replace(document, id="d-2", texts=("a", "a", "b", "b", "c", "c"), reasons={})
    assert catalog.data.put_documents([document, whole]) == 2
    assert catalog.data.put_documents([document]) == 0
    found = catalog.data.document("d-1")
    assert (found.subset_id, found.pipeline_id, found.source) == ("s", "web", "https://example.org/1")
    assert [(step.stage, step.level, step.before, step.after, step.reason) for step in found.steps[:4]] == [
        ("crawl", Level.L0, None, "<p>Größe 1</p>", ""),
        ("text", Level.L1, "<p>Größe 1</p>", "Größe 1", ""),
        ("rules", Level.L2, "Größe 1", "Größe 1", ""),
        ("classify", Level.L3, "Größe 1", None, "quality 0.1 < 0.5"),
    ]
    assert {step.code_version for step in found.steps} == {"v1"}
    assert [step.after for step in catalog.data.document("d-2").steps] == ["a", "a", "b", "b", "c", "c"]
    why = catalog.why.of("document", "d-1")
    assert {("subset", "s"), ("pipeline", "web"), ("output", "/data/rules.jsonl")} <= {
        (node.kind, node.id) for node in why.nodes
    }
    for bad in (("a",), ("a", None, "b", "b", "b", "b")):
        with pytest.raises(UserInputError, match="6 stages"):
            catalog.data.put_documents([dataclasses.replace(document, id="d-3", texts=bad)])
    with pytest.raises(NotFound, match="d-3"):
        catalog.data.document("d-3")


def mixture(**weights: float) -> dict[str, Scalar]:
    return {"lr": 0.1, **{f"data.mixture.{name}": weight for name, weight in weights.items()}}


def test_mixture_weights_are_events_by_step(catalog: Store, training: Training) -> None:
    """A weight that a superseded piece of history had set is not in force behind a resume from before it."""
    catalog.data.put_subsets([subset("web")])
    training.log(started(config=mixture(web=0.5, code=0.5)), *steps(1, 60))
    training.log(Effective(step=61, values={"data.mixture.web": 0.7, "data.mixture.code": 0.3}), *steps(61, 100))
    training.log(started(segment=1, start_step=50, config=mixture(web=0.7, qa=0.3)), segment=1)
    training.log(*steps(51, 90), Effective(step=91, values={"data.mixture.qa": 0.1}), *steps(91, 95), segment=1)
    training.ship()
    assert catalog.data.mixture("run-1", 50) == {"web": 0.7, "qa": 0.3}
    assert catalog.data.mixture("run-1", 49) == {"web": 0.5, "code": 0.5}
    assert catalog.data.mixture("run-1", 90) == {"web": 0.7, "qa": 0.3}
    assert catalog.data.mixture("run-1") == {"web": 0.7, "qa": 0.1}
    events = catalog.data.mixture_events("run-1")
    assert [(e.segment, e.step, e.source, e.before, e.after, e.declared) for e in events] == [
        (0, 0, "code", None, 0.5, True),
        (0, 0, "web", None, 0.5, True),
        (0, 61, "code", 0.5, 0.3, False),
        (0, 61, "web", 0.5, 0.7, False),
        (1, 50, "code", 0.5, None, True),
        (1, 50, "qa", None, 0.3, True),
        (1, 50, "web", 0.5, 0.7, True),
        (1, 91, "qa", 0.3, 0.1, False),
    ]
    assert {(e.source, e.subset_id) for e in events} == {("web", "web"), ("code", None), ("qa", None)}
    assert isinstance(events[0], MixtureEvent)
    linked = catalog.why.of("run", "run-1")
    assert "web" in {node.id for node in linked.nodes if node.kind == "subset"}
