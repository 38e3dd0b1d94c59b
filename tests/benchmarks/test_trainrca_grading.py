"""Kept outputs and figures of the root-cause benchmark."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.trainrca.answers import NAMED, Answer, Change, Facts
from benchmarks.trainrca.form import Shelf, Truth
from benchmarks.trainrca.grading import Graded, grade, rate, with_memory
from benchmarks.trainrca.methods import METHODS
from benchmarks.trainrca.methods.by_rule import by_rule
from benchmarks.trainrca.recording import pack, unpack
from benchmarks.trainrca.running import Answers, Options, figures
from contracts.backend import Launch, Outcome
from contracts.errors import UserInputError
from contracts.events import CheckpointSaved, Finished, Metrics, SegmentStarted, encode, read_events, segment_folder


def truth(**changes: object) -> Truth:
    fields: dict[str, object] = {"id": "c-1", "kind": "k", "family": "data", "answer": "cause", "targets": ("a",)}
    return Truth.model_validate({**fields, "first_step": 101, **changes})


def answer(verdict: str = "proven", named: tuple[str, ...] = ("a",), **changes: object) -> Answer:
    return replace(Answer(verdict=verdict, named=named, ranking=named, found_at=110, reruns=6), **changes)  # type: ignore[arg-type]


def test_a_rate_is_a_value_with_bounds() -> None:
    found = rate(19, 20)
    assert (found["value"], found["of"]) == (0.95, "19/20")
    assert found["low"] == pytest.approx(0.7513, abs=1e-4)
    assert found["high"] == pytest.approx(0.9987, abs=1e-4)
    assert rate(0, 30)["high"] == pytest.approx(0.1157, abs=1e-4)
    assert rate(0, 0)["value"] is None


def test_what_counts_as_an_over_claim() -> None:
    assert not Graded(truth=truth(), answer=answer()).over_claims
    assert Graded(truth=truth(), answer=answer(named=("a", "b"))).over_claims
    assert Graded(truth=truth(answer="nothing", targets=()), answer=answer()).over_claims
    assert Graded(truth=truth(answer="cannot_tell"), answer=answer()).over_claims  # right by luck: nobody can tell
    assert not Graded(truth=truth(), answer=answer("cannot_tell", ())).over_claims


def test_figures_of_a_method() -> None:
    rows = [
        Graded(truth=truth(), answer=answer(fix_held=True)),
        Graded(truth=truth(id="c-2"), answer=answer("cannot_tell", (), ranking=("x", "y", "a"), found_at=121)),
        Graded(truth=truth(id="c-3", answer="nothing", targets=()), answer=answer("nothing_found", (), found_at=None)),
        Graded(truth=truth(id="c-4", answer="cannot_tell"), answer=answer("cannot_tell", (), found_at=105)),
    ]
    told = grade(rows)
    assert [told[key]["of"] for key in ("top1", "top3", "exact_set", "proven_right")] == ["1/2", "2/2", "1/2", "1/2"]
    assert [told[key]["of"] for key in ("over_claims", "false_alarms", "detected")] == ["0/4", "0/1", "3/3"]
    assert (told["fix_held"]["of"], told["cannot_tell_right"]["of"]) == ("1/1", "1/1")
    assert (told["detection_delay_steps"], told["reruns_median"]) == (9.0, 6.0)


def test_arms_with_memory() -> None:
    again, alike = truth(id="r", recurrence="repeat"), truth(id="l", recurrence="look_alike")
    off = {"r": Graded(truth=again, answer=answer()), "l": Graded(truth=alike, answer=answer("cannot_tell", ()))}
    on = {
        "r": Graded(truth=again, answer=answer(reruns=3)),
        "l": Graded(truth=alike, answer=answer(named=("b",))),
    }
    told = with_memory(off, on)
    assert told["probes_on_over_off"] == {"value": 0.5, "of": 1}
    assert told["misled"]["of"] == "1/1"


def test_methods_that_run_nothing() -> None:
    def change(key: str, *words: str, jump: float = 0.0) -> Change:
        return Change(key=key, cause_kind="code", substance="", words=words, jump=jump, num_lines=2)

    past = Facts(
        case_id="old", trainer="command", symptoms=("level_shift loss",), changes=(change("commit:9", "pages", "roll"),)
    )
    now = Facts(
        case_id="new",
        trainer="command",
        symptoms=("level_shift loss",),
        changes=(change("commit:1", "pages"), change("commit:2", "lr", jump=3.0), change("commit:3", "report")),
    )
    library = [(past, truth(id="old", kind="other", targets=("commit:9",))), (now, truth(id="new"))]
    found = by_rule(now, library, truth(id="new"))
    assert found["newest_change"].named == ("commit:3",)
    assert found["config_diff"].named == ("commit:2",)
    assert found["nearest_incident"].named == ("commit:1",)
    assert {each.verdict for name, each in found.items() if name != "tree"} == {NAMED}
    silent = by_rule(Facts(case_id="h", trainer="command"), library, truth(id="h"))
    assert {each.verdict for each in silent.values()} == {"nothing_found"}


def test_what_is_printed(tmp_path: Path) -> None:
    answers = Answers(Options(work=tmp_path))
    truths = {
        "c-1": truth(),
        "c-2": truth(id="c-2", kind="healthy", family="healthy", answer="nothing", targets=()),
        "c-3": truth(id="c-3", kind="stranger", late=True),
    }
    silent = answer("nothing_found", (), found_at=None)
    for case_id, said in (("c-1", answer()), ("c-2", silent), ("c-3", answer("cannot_tell", ()))):
        answers.put(case_id, "facts", Facts(case_id=case_id, trainer="command"))
        answers.put(case_id, "lathe", said)
        answers.put(case_id, "bisect", silent)
    told = figures(truths, answers)
    assert next(iter(told)) == "late_kinds"
    assert told["late_kinds"]["proven_right"]["of"] == "0/1"
    assert told["lathe"]["proven_right"]["of"] == "1/1"
    assert set(METHODS) < set(told)
    assert told["worst_kind"][0] == "stranger"
    assert told["traincheck"].startswith("not run")
    assert Answers(Options(work=tmp_path)).get("c-1", "lathe") is not None  # an interrupted evaluation goes on
    assert Answers(Options(work=tmp_path, cached=True)).get("c-1", "lathe") is None  # and this one decides again


def launch_in(folder: Path, run_id: str) -> Launch:
    return Launch(
        run_id=run_id,
        segment=0,
        run_folder=str(folder / run_id),
        project=str(folder / "project"),
        code_version="abc",
        start_checkpoint=str(folder / "source" / "checkpoints" / "step-000100"),
    )


def test_kept_outputs_say_nothing_of_where_they_came_from(tmp_path: Path) -> None:
    there, here = launch_in(tmp_path / "there", "one"), launch_in(tmp_path / "here", "two")
    log = segment_folder(there.folder, 0) / "events.log"
    log.parent.mkdir(parents=True)
    started = SegmentStarted(
        run_id="one",
        segment=0,
        start_step=100,
        code_version="abc",
        seed=1,
        dp_size=1,
        start_checkpoint=there.start_checkpoint,
        config={},
        environment={},
        wall_time=0.0,
    )
    saved = CheckpointSaved(step=120, path=f"{there.run_folder}/checkpoints/step-000120", sha256="", size_bytes=1)
    events = [started, Metrics(step=101, values={"loss": float("nan")}), saved, Finished(step=120, reason="completed")]
    log.write_bytes(b"".join(encode(event) for event in events))
    outcome = Outcome(run_id="one", segment=0, last_step=120, reason="completed", cpu_s=1.0, wall_s=2.0)
    pack(tmp_path / "kept.tar.gz", there, outcome)
    assert str(tmp_path).encode() not in gzip.decompress((tmp_path / "kept.tar.gz").read_bytes())
    assert unpack(tmp_path / "kept.tar.gz", here) == replace(outcome, run_id="two")
    laid = [each.event for each in read_events(segment_folder(here.folder, 0) / "events.log")]
    assert isinstance(laid[0], SegmentStarted)
    assert (laid[0].run_id, laid[0].start_checkpoint) == ("two", here.start_checkpoint)
    assert isinstance(laid[2], CheckpointSaved)
    assert laid[2].path == f"{here.run_folder}/checkpoints/step-000120"


def test_a_damaged_case_names_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "cases" / "c-1"
    folder.mkdir(parents=True)
    (folder / "case.json").write_text('{"id": "c-1"}')
    with pytest.raises(UserInputError, match=r"case\.json"):
        Shelf(tmp_path).list()
