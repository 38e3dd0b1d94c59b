"""Configuration along a run, and the value that did not scale. Shows R801-2.7 (fields tied to steps) and 2.2."""

from __future__ import annotations

import pytest
from training_log import Training, append, make_run, scalars, started, steps

from context_store import Store
from context_store.importers.configs import flat
from context_store.records import ConfigChange
from context_store.scaling import not_scaled
from contracts.errors import NotFound, UserInputError
from contracts.events import Effective, Scalar

LONG = "wort " * 20_000


def nested(depth: int) -> dict[str, object]:
    fields: dict[str, object] = {"größe": 1, "lang": LONG}
    for level in range(depth):
        fields = {f"ebene{level % 3}": fields, "数": level}
    return fields


def test_configurations_of_any_depth_with_unicode_keys_and_long_values(store: Store, training: Training) -> None:
    assert len(flat(nested(5000))) == 5002
    fields = flat(nested(300))
    deepest = next(key for key in fields if key.endswith("lang"))
    fields["e" * 3000 + "a"], fields["e" * 3000 + "b"] = 1, 2
    training.log(started(config=fields), *steps(1, 2))
    training.log(started(segment=1, start_step=2, config=fields | {deepest: LONG[:-2] + "e"}), segment=1)
    training.ship()
    declared = store.runs.declared("run-1", 0)
    assert len(declared) == 304, "keys that share a long beginning stay two"
    assert {len(str(value)) for key, value in declared.items() if str(value).startswith("wort")} == {100_000}
    (change,) = store.config.diff("run-1#0", "run-1#1")
    assert (len(str(change.before)), str(change.after)[-1]) == (100_000, "e")
    assert change.status == "changed"


def test_a_dotted_key_and_a_nested_one_do_not_hide_each_other() -> None:
    fields = flat({"a.b": 1, "a": {"b": 2, "c": {}}, "l": [1, "ü"]})
    assert fields == {"a.b": 1, "a.'b'": 2, "a.c": "{}", "l": '[1, "ü"]'}


@pytest.fixture
def resumed(training: Training) -> Store:
    """0..50 with lr 0.1, from 31 on really 0.3; resumed at 40 with another clip; lr really 0.2 from 61 on."""
    fields = scalars(optim__lr=0.1, optim__clip=1.0, seed=1)
    training.log(started(config=fields), Effective(step=1, values={"optim.lr": 0.1, "group.head": "adamw"}))
    training.log(*steps(1, 30), Effective(step=31, values={"optim.lr": 0.3}), *steps(31, 50))
    training.log(started(segment=1, start_step=40, config=fields | {"optim.clip": 0.5}), segment=1)
    training.log(Effective(step=41, values={"optim.lr": 0.3, "group.head": "muon"}), *steps(41, 60), segment=1)
    training.log(Effective(step=61, values={"optim.lr": 0.2}), *steps(61, 70), segment=1)
    training.ship()
    return training.store


def change(key: str, before: Scalar, after: Scalar) -> ConfigChange:
    return ConfigChange(key=key, before=before, after=after, status="changed")


def test_places_in_a_run_differ_by_what_was_in_force(resumed: Store) -> None:
    assert resumed.config.at("run-1@20")["optim.lr"] == 0.1
    assert resumed.config.at("run-1@35")["optim.lr"] == 0.3
    assert resumed.config.at("run-1@45")["optim.clip"] == 0.5
    assert resumed.config.at("run-1#0@45")["optim.clip"] == 1.0
    assert resumed.config.diff("run-1@20", "run-1@35") == (change("optim.lr", 0.1, 0.3),)
    assert [each.key for each in resumed.config.diff("run-1#0", "run-1#1")] == ["group.head", "optim.clip", "optim.lr"]
    assert resumed.config.diff("run-1", "run-1@65") == ()


def test_changes_within_a_run_by_step(resumed: Store) -> None:
    found = [(c.segment, c.step, c.source, c.change) for c in resumed.config.changes("run-1")]
    assert found == [
        (0, 31, "effective", change("optim.lr", 0.1, 0.3)),
        (1, 40, "declared", change("optim.clip", 1.0, 0.5)),
        (1, 41, "effective", change("group.head", "adamw", "muon")),
        (1, 61, "effective", change("optim.lr", 0.3, 0.2)),
    ]


def test_what_was_said_and_what_was_used(resumed: Store) -> None:
    usage = resumed.config.usage("run-1")
    (mismatch,) = usage.mismatches
    assert (usage.num_declared, usage.num_recorded) == (3, 1), "of clip and seed nothing says how they were used"
    assert (mismatch.key, mismatch.declared, mismatch.effective, mismatch.step) == ("optim.lr", 0.1, 0.2, 61)
    assert resumed.config.usage("run-1#0@20").mismatches == ()
    assert [each.step for each in resumed.config.usage("run-1#0").mismatches] == [31]


def test_two_runs_and_what_is_not_there(resumed: Store, training: Training) -> None:
    make_run(resumed, "run-2")
    append(training.folder.parent / "run-2", 0, started("run-2", config={"optim.lr": 0.2, "new": "ü"}))
    resumed.ingest.ship("run-2", training.folder.parent / "run-2")
    statuses = {each.key: each.status for each in resumed.config.diff("run-1", "run-2")}
    assert statuses == {"new": "added", "seed": "removed", "optim.clip": "removed", "group.head": "removed"}
    for place in ("run-9", "run-1#7"):
        with pytest.raises(NotFound, match=place):
            resumed.config.at(place)
    with pytest.raises(UserInputError, match="RUN#"):
        resumed.config.diff("run-1", "run-1#x")


# --- values that did not scale

SMALL: dict[str, Scalar] = {
    "model.d_model": 256,
    "model.num_heads": 4,
    "model.head_dim": 64,
    "model.d_ff": 1024,
    "model.num_layers": 8,
    "model.init_std": 0.02,
    "model.residual_scale": 1 / 16,
    "optim.lr": 0.004,
    "optim.warmup_steps": 100,
    "optim.beta1": 0.9,
    "steps": 1000,
    "seed": 7,
    "name": "small",
    "nan": float("nan"),
}
LARGE: dict[str, Scalar] = SMALL | {
    "model.d_model": 1024,
    "model.num_heads": 16,
    "model.d_ff": 4096,
    "model.num_layers": 32,
    "model.init_std": 0.01,
    "model.residual_scale": 1 / 64,
    "optim.lr": 0.001,
    "optim.warmup_steps": 400,
    "steps": 4000,
    "seed": 8,
}
MIDDLE: dict[str, Scalar] = SMALL | {
    "model.d_model": 512,
    "model.num_heads": 8,
    "model.d_ff": 2048,
    "model.num_layers": 16,
    "model.init_std": 0.02 / 2**0.5,
    "model.residual_scale": 1 / 32,
    "optim.lr": 0.002,
    "optim.warmup_steps": 200,
    "steps": 2000,
}


@pytest.mark.parametrize("key", ["model.d_ff", "model.init_std", "optim.lr", "optim.warmup_steps"])
def test_the_value_that_stayed_behind_is_named_by_a_rule(key: str) -> None:
    (found,) = not_scaled([SMALL], LARGE | {key: SMALL[key]})
    assert found.key == key
    assert found.expected == pytest.approx(LARGE[key])


def test_heads_times_head_dim_is_the_width() -> None:
    (found,) = not_scaled([SMALL], LARGE | {"model.num_heads": 4})
    assert (found.key, found.expected, found.size) == ("model.head_dim", 256, "model.d_model")
    assert "model.num_heads x model.head_dim" in found.basis


def test_earlier_runs_teach_a_relation_that_no_rule_knows() -> None:
    broken = LARGE | {"model.residual_scale": 1 / 32}
    assert not_scaled([MIDDLE], broken) == [], "one reference teaches nothing"
    (found,) = not_scaled([SMALL, MIDDLE], broken)
    assert (found.key, found.expected) == ("model.residual_scale", pytest.approx(1 / 64))
    assert "2 earlier runs" in found.basis


def test_a_well_scaled_model_and_an_unscaled_one_give_no_finding() -> None:
    assert not_scaled([SMALL], LARGE) == []
    assert not_scaled([SMALL, MIDDLE], LARGE) == []
    assert not_scaled([SMALL], SMALL | {"optim.lr": 0.1, "seed": 9}) == []
    assert not_scaled([], LARGE) == []
    assert not_scaled([SMALL], LARGE | {"optim.lr": 0.003}) == [], "somebody chose it"


def test_not_scaled_of_stored_runs(training: Training) -> None:
    store = training.store
    for name, config in (("small", SMALL), ("large", LARGE | {"optim.warmup_steps": 100})):
        make_run(store, name)
        append(training.folder.parent / name, 0, started(name, config=config))
        store.ingest.ship(name, training.folder.parent / name)
    (found,) = store.config.not_scaled("large", ["small"])
    assert (found.key, found.value, found.expected) == ("optim.warmup_steps", 100, 400)
