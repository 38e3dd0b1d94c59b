"""The OpenAPI description is whole, and answers are what it says: schemathesis finds no defect on real data."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from case import CASE, propose_fix, train_bad_run
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from small_project import SmallProject
from test_api import header

from context_store import Store
from context_store.records import Amount, NegativeResult
from contracts.enums import Role, ScheduleAction
from contracts.evidence import EvidenceRef
from control_plane.api.app import ApiOptions, create_app
from control_plane.api.limits import Allowance
from control_plane.wiring import Lathe

KNOWN = {"run_id": "run-1", "case_id": CASE, "experiment_id": "e1", "budget_id": CASE, "policy_id": 1, "schedule_id": 1}
STREAM = "/api/v1/events"  # does not end


def test_every_operation_says_what_it_answers_and_how_it_refuses(store: Store) -> None:
    document = create_app(store).openapi()
    schemas = document["components"]["schemas"]
    operations = {
        f"{method} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert len({each["operationId"] for each in operations.values()}) == len(operations)
    for name, operation in operations.items():
        assert operation["security"] == [{"HTTPBearer": []}], name
        assert operation["description"], name
        assert {"400", "401", "403", "404", "422", "429", "500", "503"} <= operation["responses"].keys(), name
        done = [each for status, each in operation["responses"].items() if status.startswith("2")]
        assert done, name
        for answer in done:
            (content,) = answer["content"].values()
            assert content["schema"], name
            if "$ref" in content["schema"]:
                named = schemas[content["schema"]["$ref"].rpartition("/")[2]]
                assert named["properties"], name
    assert set(schemas["Problem"]["properties"]) == {"type", "title", "status", "detail", "remedy"}
    assert schemas["EvidenceRef"]["type"] == "string"
    assert not any("HTTPValidationError" in str(each) for each in operations.values())


def test_whatever_can_grow_comes_in_pages(store: Store) -> None:
    """Every answer with a list of records at its top has `next`, unless the list is as long as the question."""
    document = create_app(store).openapi()
    whole = {"AllPoints", "NonFinites", "Findings", "CaseFile", "OneRun", "System", "Health", "Difference"}
    whole |= {
        "ShownProposal",
        "ApprovedProposal",
        "OneExperiment",
        "Confusion",
        "Texts",
        "Outputs",
        "OneClassifier",
        "OneEvolution",
        "OnePipeline",
        "WholeThread",
        "Reasons",
    }
    whole |= {"Hits", "Rankings", "Flows"}  # the best of them, as many as were asked for; what settings name
    whole |= {
        "Marks",
        "Detectors",
        "Loops",
        "Scores",
        "Mixture",
        "LayerMap",
        "WholeNegative",
        "SharesOut",
    }  # of what was asked for
    for path, methods in document["paths"].items():
        content = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {}).get("application/json")
        if content is None:
            continue
        name = content["schema"]["$ref"].rpartition("/")[2]
        fields = document["components"]["schemas"][name]["properties"]
        lists = [each for each in fields.values() if each.get("type") == "array"]
        assert "next" in fields or not lists or name in whole, path


@pytest.fixture
def filled(lathe: Lathe, small_project: SmallProject) -> Store:
    """A store with something of everything that the fuzzer's requests may meet."""
    train_bad_run(lathe, small_project)
    propose_fix(lathe, small_project)
    store, now = lathe.store, time.time()
    store.policies.require_four_eyes(["patch_code"], "root", Role.ADMIN, "costly", now)  # type: ignore[list-item]
    store.schedules.set(
        ScheduleAction.WATCH, target="", every_s=60.0, actor="root", role=Role.ADMIN, reason="nights", at=now
    )
    store.experiments.open("e1", "an experiment", "root", now, Amount(cpu_s=1.0))
    store.negatives.add(
        NegativeResult(
            claim="the note", intervention="reverted it", context={"x": float("nan")}, expected="", observed="nothing",
            reason_class="other", reason="not read", evidence=(EvidenceRef(kind="run", id="run-1"),), reopen_if="",
            investigation_id=CASE, actor="root",
        )
    )  # fmt: skip
    return store


@pytest.mark.parametrize("num_examples", [2, pytest.param(60, marks=pytest.mark.slow)])
def test_schemathesis_finds_no_defect(filled: Store, num_examples: int) -> None:
    """No 500, and every answer is as described, for generated requests of every operation by an admin."""
    pytest.importorskip("schemathesis")
    options = ApiOptions(hosts=("testserver",), allowance=Allowance(requests_per_s=1e6, bytes_per_s=1e12))
    statuses = attack(create_app(filled, options=options), header(filled, Role.ADMIN), num_examples)
    assert len(statuses) >= 45
    answered = [name for name, seen in statuses.items() if any(status < 300 for status in seen)]
    assert len(answered) > len(statuses) / 4, "many requests meet something that is there"


def test_the_attack_finds_a_defect_that_is_there(filled: Store) -> None:
    """A fuzzer that finds nothing in an API that breaks would prove nothing."""
    pytest.importorskip("schemathesis")
    options = ApiOptions(hosts=("testserver",))
    app = create_app(filled, clock=lambda: 1 / 0, options=options)
    with pytest.raises(Exception, match="division by zero"):
        attack(app, header(filled, Role.ADMIN), 2)


def attack(app: FastAPI, headers: Mapping[str, str], num_examples: int) -> dict[str, set[int]]:
    """Statuses that were met, by operation. Raises what schemathesis finds."""
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

    checks = [not_a_server_error, response_schema_conformance, status_code_conformance]
    quietly = settings(
        max_examples=num_examples, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    met: dict[str, set[int]] = {}

    def ask(case: Any) -> None:
        seen = met.setdefault(f"{case.method} {case.path}", set())
        if not any(status < 300 for status in seen):  # as generated only after something that is there
            case.path_parameters = {name: KNOWN.get(name, value) for name, value in case.path_parameters.items()}
        response = case.call(headers=dict(headers))
        seen.add(response.status_code)
        case.validate_response(response, checks=checks)

    for found in schemathesis.openapi.from_asgi("/api/v1/openapi.json", app).get_all_operations():
        operation = found.ok()
        if operation.path != STREAM:
            quietly(given(case=operation.as_strategy())(ask))()
    return met
