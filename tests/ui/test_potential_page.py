"""The page Potential in a real browser: verdict, both curves, and each number down to what the model wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from case_file import store_case
from running import RunningLathe
from test_potential_plots import BEST, reading

from contracts.enums import Scope
from loops.potential.plan import PotentialPlan

Page = Any
CASE = "potential-run-p"
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module", autouse=True)
def measured(lathe: RunningLathe, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A measured run, with one file of raw outputs behind every number; and a decision on its recipe."""
    store, folder = lathe.store, tmp_path_factory.mktemp("raw")
    store_case(store, tmp_path_factory.mktemp("runs"), "p")
    project = store.runs.get("run-p").project_id
    for case_id, loop in ((CASE, "potential"), ("recipe-run-p", "recipe")):
        store.knowledge.open_case(case_id, project_id=project, loop=loop, title=HOSTILE, at=1.0, run_id="run-p")
        store.knowledge.set_investigation(case_id, scope=Scope.OBSERVED, statement="false plateau")
    index = outputs_in(folder)
    plan = PotentialPlan(run_id="run-p", steps=(20, 40), seeds=(1, 2)).to_json()
    store.casework.put(CASE, "plan", "plan", plan, 1.0)
    store.casework.put(CASE, "base", "20", {"raw": index, "fan": {"a": {"raw": index}}}, 1.0)
    best = {**BEST, "raw": {"a": index}}
    body = reading().model_dump() | {
        "base_raw": [index] * 2, "sft_raw": [[index] * 2] * 2, "maximum": {20: best, 40: best},
        "findings": {20: [f"it disagrees {HOSTILE}"]}, "bits_raw": [{"bits_code": bits_in(folder)}] * 2,
        "maximum_by_task": {20: {}, 40: {"sums": best}}, "protocol_rank_changes": [["a", f"b{HOSTILE}"]],
        "marks_raw": {step: [[index] * 2] * 2 for step in (20, 40)},
    }  # fmt: skip
    store.casework.put(CASE, "reading", "r", json.loads(json.dumps(body)), 1.0)
    record = decision(body)
    store.casework.put("recipe-run-p", "decision", "decision", record, 1.0)
    store.casework.put("recipe-run-p", "pilot", "0", record["pilots"][0] | {"base_raw": index, "tiny_raw": index}, 1.0)


def outputs_in(folder: Path) -> str:
    head = {"task": "sums", "accuracy": 0.5}
    row = {"item": "i1", "expected": "4", "found": None, "right": False, "text": HOSTILE}
    (folder / "sums.jsonl").write_text(json.dumps(head) + "\n" + json.dumps(row) + "\n")
    index = folder / "index.1.jsonl"
    line = {"task": "sums", "protocol": "a", "accuracy": 0.5, "unparsed": 1.0, "wrong": 0.0, "file": "sums.jsonl"}
    index.write_text(json.dumps(line) + "\n")
    return str(index)


def bits_in(folder: Path) -> str:
    head, row = {"model": "m"}, {"document": 0, "bits": 99.5, "bytes": 10, "text": f"held out {HOSTILE}"}
    (folder / "bits.jsonl").write_text(json.dumps(head) + "\n" + json.dumps(row) + "\n")
    return str(folder / "bits.jsonl")


def decision(body: dict[str, Any]) -> dict[str, Any]:
    effect = {"mean": 2.0, "low": 0.5, "high": 3.5, "num_pairs": 3}
    finalist = {"name": "coef=0.001", "difference": effect, "base_difference": effect,
                "problems": {"found": [], "removed": ["loss spike"], "carried_over": []}}  # fmt: skip
    curves = {key: body[key] for key in ("steps", "tokens", "base", "sft")}
    return {
        "choice": "change", "candidate": "coef=0.001", "sentence": "change to coef=0.001", "run_id": "run-p",
        "scope": "pilots", "curves": curves, "finalists": [finalist], "left_out": [f"lr was tried {HOSTILE}"],
        "pilots": [{"candidate": "unchanged", "rung": 0, "seed": 1, "base_raw": body["base_raw"][0]}],
        "candidates": [{"name": "unchanged", "overrides": {}, "why": "w", "evidence": ["run:run-p"]}],
    }  # fmt: skip


def test_a_number_opens_to_what_was_written(page: Page, lathe: RunningLathe) -> None:
    page.goto(f"{lathe.url}/potential?case={CASE}&token={lathe.viewer}")
    page.get_by_role("heading", name="False plateau").wait_for()
    page.locator(".js-plotly-plot").first.wait_for()
    page.get_by_role("tab", name="Protocols").click()
    page.get_by_text("it disagrees").wait_for()
    page.get_by_text("Order turned between the first and the last checkpoint: a and b").wait_for()
    page.locator(".lt-table", has_text="Task, last checkpoint").get_by_text("sums").wait_for()
    page.get_by_role("tab", name="Ranks").click()
    page.get_by_text("No Spearman rho").wait_for()
    page.get_by_role("tab", name="Learnability").click()
    page.get_by_text("No data-saving ratio").wait_for()
    page.get_by_role("tab", name="Raw outputs").click()
    page.locator(".lt-table", has_text="unparsed").get_by_text(HOSTILE).first.wait_for()
    for number, shown in ("step 20, bits code", "held out"), ("step 40, SFT seed 2 after 64 steps", "unparsed"):
        choose(page, number)
        page.locator(".lt-table", has_text=shown).get_by_text(HOSTILE).first.wait_for()


def choose(page: Page, number: str) -> None:
    page.get_by_role("combobox", name="Number").fill(number)
    page.get_by_role("option", name=number, exact=True).click()


def test_a_decision_shows_both_curves_and_the_problems(page: Page, lathe: RunningLathe) -> None:
    page.goto(f"{lathe.url}/potential?token={lathe.viewer}")
    page.get_by_role("tab", name="Decisions").click()
    page.get_by_role("heading", name="Change").wait_for()
    page.locator(".lt-table", has_text="loss spike").wait_for()
    page.get_by_text("left out: lr was tried").wait_for()
    page.get_by_text("Raw outputs of the pilots").wait_for()
    page.locator(".lt-table", has_text="unparsed").get_by_text(HOSTILE).last.wait_for()
