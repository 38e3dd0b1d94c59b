"""Detectors on the synthetic training: each finds its fault at the right steps, and healthy runs stay silent."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from synthetic import CUTS, HEALTHY, INNOCENT, Code, run_view

import loops.debug.detectors
from contracts.events import Scalar
from loops.debug.case import group_findings
from loops.debug.detectors import DETECTORS, non_finite, spike, throughput
from loops.debug.finding import Finding
from loops.debug.view import RunView, SegmentView, make_view

SEEDS = range(1, 25)


def findings(view: RunView) -> list[Finding]:
    """What `detect` would report: the groups that a standalone finding opens, the leading one first."""
    found = [finding for detector in DETECTORS for finding in detector(view)]
    return [finding for group in group_findings(view, found) for finding in group]


@pytest.mark.parametrize("seed", SEEDS)
def test_healthy_runs_with_innocent_changes_are_silent(seed: int) -> None:
    """A learning rate 5 % higher, another mixture and two resumes are no anomaly."""
    assert [
        f.statement for f in findings(run_view(seed, HEALTHY, replace(HEALTHY, attention_lr=3.3e-3), INNOCENT))
    ] == []


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_over_balance(seed: int) -> None:
    """Shows R801-3.2 (a) and R801-3.16: MaxVio falls in all layers under a penalty that is too strong."""
    found = findings(run_view(seed, HEALTHY, INNOCENT, Code(penalty_scale=8.0)))
    assert found[0].kind == "over_balance"
    assert found[0].onset[0] <= 111 <= found[0].onset[1]
    assert len(found[0].layers) == 8


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_penalty_that_is_too_strong_from_the_first_step_on(seed: int) -> None:
    """Shows R801-3.2 (a) for a first pilot: there is no change to see."""
    strong = Code(penalty_scale=8.0)
    (found,) = findings(run_view(seed, strong, strong, strong))
    assert (found.kind, found.onset[0]) == ("over_balance", 1)
    assert "% of the loss all along" in found.statement


def test_loads_that_are_more_equal_than_chance_makes_them() -> None:
    sizes: dict[str, Scalar] = {"moe.num_experts": 8, "moe.top_k": 2, "data.batch_size": 8, "data.seq_len": 64}
    steps, rng = np.arange(1, 161), np.random.default_rng(1)
    chosen = np.argsort(rng.random((160, 4, 512, 8)), axis=-1)[..., :2].reshape(160, 4, -1)
    loads = np.apply_along_axis(np.bincount, -1, chosen, minlength=8)
    by_chance = loads.max(axis=-1) / loads.mean(axis=-1) - 1.0
    for factor, kinds in ((1.0, []), (0.5, ["over_balance"])):
        view = make_view("run", steps, {f"max_vio/layers.{i}": factor * by_chance[:, i] for i in range(4)})
        view = replace(view, segments=(replace(view.segments[0], declared=sizes),))
        assert [f.kind for f in findings(view)] == kinds


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_layers_that_are_unbalanced_from_the_first_step_on(seed: int) -> None:
    """Shows R801-3.2 (b) without a change; the last layer alone needs a second signal."""
    skipped = Code(skipped_layers=(2, 5))
    (found,) = findings(run_view(seed, skipped, cuts=(170,)))
    assert (found.kind, found.layers, found.onset[0]) == ("imbalance", (2, 5), 1)
    view = run_view(seed, HEALTHY, HEALTHY, HEALTHY)
    last = {**view.values, "max_vio/layers.7": 3.0 * view.values["max_vio/layers.7"]}
    assert findings(replace(view, values=last)) == []
    last["balance_loss/layers.7"] = 1.0 + 4.0 * (view.values["balance_loss/layers.7"] - 1.0)
    assert [f.layers for f in findings(replace(view, values=last))] == [(7,)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_layers_that_depart_while_the_overall_value_looks_healthy(seed: int) -> None:
    """Shows R801-3.2 (b): a monitor of the overall value alone would stay silent."""
    view = run_view(seed, HEALTHY, INNOCENT, replace(INNOCENT, skipped_layers=(2, 5)))
    found = findings(view)
    assert found[0].kind == "peer_departure"
    assert found[0].layers == (2, 5)
    assert found[0].onset[0] <= 125
    assert found[0].onset[1] >= 111
    assert "while the overall value looks healthy" in found[0].statement
    overall = make_view("overall", view.steps, {"max_vio": view.values["max_vio"]}, view.segments)
    assert findings(overall) == []


def test_the_last_layer_needs_a_second_signal() -> None:
    """Shows R801-3.2: a last layer that is high in one statistic only is no finding."""
    view = run_view(3, HEALTHY, INNOCENT, INNOCENT)
    late = view.steps > 110
    high = {**view.values, "max_vio/layers.7": np.where(late, 3.5, 1.0) * view.values["max_vio/layers.7"]}
    assert findings(make_view("last", view.steps, high, view.segments)) == []
    inner = {**view.values, "max_vio/layers.4": np.where(late, 3.5, 1.0) * view.values["max_vio/layers.4"]}
    assert findings(make_view("inner", view.steps, inner, view.segments))[0].layers == (4,)
    both = {**high, "balance_loss/layers.7": 1 + np.where(late, 5.0, 1.0) * (view.values["balance_loss/layers.7"] - 1)}
    assert findings(make_view("both", view.steps, both, view.segments))[0].layers == (7,)


def test_a_layer_that_goes_furthest_where_all_go_does_not_lead() -> None:
    """When every layer leaves its course, the finding about all of them leads, and none is said to look healthy."""
    view = run_view(3, HEALTHY, INNOCENT, INNOCENT)
    late = view.steps > 110
    names = [f"router_entropy/layers.{i}" for i in range(8)]
    fallen = {name: np.where(late, 0.6 if i == 4 else 0.8, 1.0) * view.values[name] for i, name in enumerate(names)}
    found = findings(make_view("all", view.steps, {**view.values, **fallen}, view.segments))
    assert (found[0].kind, len(found[0].layers)) == ("level_shift", 8)
    assert not any("looks healthy" in f.statement for f in found)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_router_that_runs_away(seed: int) -> None:
    """Shows R801-3.17: weight norm and logits of the router leave their course in all layers."""
    found = findings(run_view(seed, HEALTHY, INNOCENT, replace(INNOCENT, router_lr=5e-2)))
    kinds = {(f.kind, f.series[0].partition("/")[0]) for f in found}
    assert {("trend", "weight_norm"), ("level_shift", "router_logit_std")} <= kinds
    assert found[0].onset[0] == 111


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gains_that_shrink_under_decay(seed: int) -> None:
    """Shows R801-3.19: the gains shrink in every layer, and the broken invariant is named."""
    found = findings(run_view(seed, HEALTHY, INNOCENT, replace(INNOCENT, norm_decay=0.1)))
    assert [f.kind for f in found] == ["trend", "invariant"]
    assert found[0].onset[0] == 111
    assert "is decayed in group head" in found[1].statement


def test_groups_that_change_without_decaying_gains_are_only_a_fact() -> None:
    """A router that moves to another group with the same rate is a timeline event, not an anomaly."""
    assert findings(run_view(2, HEALTHY, INNOCENT, replace(INNOCENT, router_group="bias"))) == []


def test_samples_read_again_after_a_resume() -> None:
    """Shows R801-3.20."""
    found = findings(run_view(1, HEALTHY, INNOCENT, replace(INNOCENT, num_devices=4), dp_sizes=(4, 4, 2)))
    assert [f.kind for f in found] == ["data_order"]
    assert found[0].onset[0] == 111


def test_an_epoch_that_ends_is_no_wrong_order() -> None:
    view = run_view(1, HEALTHY, INNOCENT, INNOCENT)
    repeats = {**view.values, "repeated_samples": np.where(view.steps > 140, 8.0, 0.0)}
    assert findings(make_view("epoch", view.steps, repeats, view.segments)) == []


def _loss_log(values: np.ndarray, name: str = "loss") -> RunView:
    """An imported log: one series, one segment, every tenth step."""
    return make_view("log", np.arange(values.size) * 10, {name: values})


def _loss(size: int, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=size)
    return np.asarray((2.0 + 3.0 * np.exp(-np.arange(size) / 40.0)) * np.exp(0.02 * noise))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_healthy_loss_log_is_silent(seed: int) -> None:
    assert findings(_loss_log(_loss(200, seed))) == []


def test_spike_that_recovers_and_divergence_that_does_not() -> None:
    loss = _loss(200, 1)
    spiked = loss.copy()
    spiked[120:124] *= 1.8
    assert [(f.kind, f.onset) for f in spike.detect(_loss_log(spiked))] == [("spike", (1200, f_peak(spiked)))]
    diverged = loss.copy()
    diverged[150:] *= np.linspace(1.2, 3.0, 50)
    found = spike.detect(_loss_log(diverged))
    assert [f.kind for f in found] == ["divergence"]
    assert 1480 <= found[0].onset[0] <= 1560


def f_peak(values: np.ndarray) -> int:
    """Step of the highest value after the start."""
    return 10 * (100 + int(np.argmax(values[100:])))


def test_not_a_number_is_found_at_its_step() -> None:
    loss = _loss(200, 1)
    loss[130:] = np.nan
    found = findings(_loss_log(loss))
    assert found[0].kind == "non_finite"
    assert found[0].onset == (1300, 1300)


def test_a_loss_scaler_that_finds_its_level_is_benign() -> None:
    """Infinite gradients in the first steps and one later are skipped steps of mixed precision."""
    values = {"loss": _loss(200, 1), "grad_norm": np.full(200, 1.0)}
    values["grad_norm"][:14] = np.inf
    values["grad_norm"][150] = np.nan
    assert non_finite.detect(make_view("amp", np.arange(1, 201), values)) == []


def test_detectors_cope_with_few_points_and_gaps() -> None:
    assert findings(_loss_log(_loss(5, 1))) == []
    assert findings(make_view("empty", np.empty(0, dtype=np.int64), {})) == []
    view = run_view(1, HEALTHY, INNOCENT, Code(penalty_scale=8.0))
    sparse = {name: np.where(view.steps % 3 == 0, row, np.nan) for name, row in view.values.items()}
    present = dict.fromkeys(sparse, view.steps % 3 == 0)
    gaps = RunView(run_id="gaps", steps=view.steps, values=sparse, present=present, segments=view.segments)
    assert findings(gaps)[0].kind == "over_balance"


def _speed(before: float, after: float, spread: float) -> RunView:
    rng = np.random.default_rng(1)
    speed = np.where(np.arange(1, 121) > 60, after, before) * np.exp(spread * rng.normal(size=120))
    segments = tuple(
        SegmentView(number=i, start_step=60 * i, last_step=60 * (i + 1), code_version="c") for i in range(2)
    )
    return make_view("speed", np.arange(1, 121), {"tokens_per_second": speed}, segments)


def test_speed_opens_a_case_only_for_a_clean_large_step() -> None:
    """A machine that others use, too, makes the speed wander: that is no finding."""
    assert throughput.detect(_speed(9000.0, 2000.0, 0.4)) == []
    assert [f.standalone for f in throughput.detect(_speed(9000.0, 5000.0, 0.02))] == [False]
    assert [f.standalone for f in throughput.detect(_speed(9000.0, 2000.0, 0.02))] == [True]


def test_findings_that_began_together_are_one_case() -> None:
    """The leading finding is the most specific one, its consequences follow."""
    view = run_view(1, HEALTHY, INNOCENT, Code(penalty_scale=8.0))
    found = [finding for detector in DETECTORS for finding in detector(view)]
    groups = group_findings(view, found)
    assert len(groups) == 1
    assert groups[0][0].kind == "over_balance"
    assert len(groups[0]) > 1
    assert CUTS[1] == 110


def test_a_faint_finding_does_not_lead_beside_a_clear_one() -> None:
    """Gains that drift a little while the router runs away: the router is what the case is about."""
    view = run_view(2, HEALTHY, INNOCENT, replace(INNOCENT, router_lr=5e-2, norm_decay=0.04))
    found = findings(view)
    assert {"trend", "level_shift"} <= {f.kind for f in found}
    assert "router" in found[0].series[0]


_CAUSAL = re.compile(r"\b(because|caus(e|es|ed|ing)|due to|leads? to|a matter of|forced?|owing to)\b")


@pytest.mark.parametrize(
    "path", sorted(Path(loops.debug.detectors.__path__[0]).glob("*.py")), ids=lambda path: path.stem
)
def test_a_detector_says_what_is_seen_and_no_cause(path: Path) -> None:
    """Shows R801-10.1: no causal sentence without its re-run."""
    tree = ast.parse(path.read_text())
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in told]
    assert [text for text in texts if isinstance(text, str) and _CAUSAL.search(text)] == []
