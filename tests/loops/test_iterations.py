"""What `benchmarks.iterations` reads from trainings: changes, combined effects, and which layer spoke first."""

from __future__ import annotations

import numpy as np
from synthetic import Code, Stretch, measure

from benchmarks.iterations import BREAK, ITERATIONS, STEPS, Job, alert, changes, compared, leads, leaves_twin

SKIPPED = (2, 5)
TOKENS = 1024


def training(seed: int, *, broken: bool, loss_offset: float = 0.0) -> dict[str, list[float]]:
    """Every series of a run of the synthetic training, which breaks at BREAK."""
    code = Code(skipped_layers=SKIPPED, loss_offset=loss_offset) if broken else Code()
    parts = [
        measure(seed, Stretch(start=0, end=BREAK, code=Code())),
        measure(seed, Stretch(start=BREAK, end=STEPS, code=code)),
    ]
    return {name: [*parts[0][name], *parts[1][name]] for name in parts[0]}


def test_the_change_table_is_made_from_the_configurations() -> None:
    """Shows R801-3.22: learning rate, balance and router from 1 to 2; scope, decay and data from 2 to 3."""
    first, second, third = ITERATIONS
    told = " ".join(changes(first, second))
    assert "moe.balance.coef: 1.0 -> 0.01" in told
    assert "optim.router.optimizer: muon -> adamw" in told
    assert "moe.balance.scope" not in told
    told = " ".join(changes(second, third))
    assert "moe.balance.scope: micro -> global" in told
    assert "optim.norm.weight_decay: 0.1 -> 0.0" in told
    assert "data.mixture.library" in told


def test_an_iteration_is_said_to_be_a_combined_effect() -> None:
    """Shows R801-3.6 and R801-10.1: at equal tokens, and no single change gets the credit."""
    found = {}
    for gain, name in enumerate(ITERATIONS):
        for seed in (1, 2, 3):
            row = training(seed, broken=False)
            row["lm_loss"] = [value - 0.1 * gain for value in row["lm_loss"]]
            found[Job(name=name, seed=seed, steps=STEPS)] = row
    told = compared((1, 2, 3), found)
    for compared_with in told.values():
        assert compared_with["single_effects"].startswith("not told apart")
        assert [round(effect[0], 6) for effect in compared_with["combined_effect"].values()] == [-0.1, -0.1]


def test_layers_are_named_before_the_loss_leaves_its_twin() -> None:
    """Shows R801-3.7 and R801-3.8: the alert, the layers, the lead in tokens; no lead where the loss never left."""
    sound, bad = training(1, broken=False), training(1, broken=True, loss_offset=0.5)
    said, layers = alert(bad)
    assert said is not None
    assert set(SKIPPED) <= set(layers)
    assert alert(sound) == (None, ())
    assert leaves_twin(sound, sound) is None
    left = leaves_twin(bad, sound)
    assert left is not None
    assert BREAK < left < BREAK + 40
    study = Job(name="study of two layers", seed=1, steps=STEPS)
    (row,) = leads((1,), {study: sound, Job(name=study.name, seed=1, steps=STEPS, breaks=True): bad}, TOKENS)
    assert row["lead_tokens"] == (left - said) * TOKENS
    quiet = training(1, broken=True)
    assert np.isfinite(quiet["lm_loss"]).all()
    (row,) = leads((1,), {study: sound, Job(name=study.name, seed=1, steps=STEPS, breaks=True): quiet}, TOKENS)
    assert row["leaves"] is None or row["leaves"] > BREAK
