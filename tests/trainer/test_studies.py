"""The recipes of the small reproductions say what their studies say."""

from __future__ import annotations

import inspect

import pytest

from trainer import Recipe
from trainer.recipes import studies
from trainer.recipes.studies import STUDIES, config_of
from trainer.weights import num_parameters, parameter_shapes


@pytest.mark.parametrize("study", STUDIES)
def test_variants_differ_in_what_is_studied_only(study: str) -> None:
    """Equal data, seeds and parameters; only the MTP module and a learned bias add some."""
    base, *others = (config_of(study, variant) for variant in STUDIES[study])
    for config in others:
        assert config != base
        assert (config.data, config.schedule, config.clip) == (base.data, base.schedule, base.clip)
        sizes = [num_parameters(parameter_shapes(c.model, c.moe)) for c in (base, config)]
        assert sizes[0] == sizes[1] or study == "experts" or config.moe.router_bias


def test_fine_grained_experts_have_equal_expert_parameters() -> None:
    """RM2-2.2: more and smaller experts, an equal share of them active; only the router grows."""
    coarse, fine = (config_of("experts", variant).moe for variant in ("coarse", "fine_grained"))
    assert coarse.num_experts * coarse.d_expert == fine.num_experts * fine.d_expert
    assert coarse.top_k / coarse.num_experts == fine.top_k / fine.num_experts


def test_optimizer_table_of_the_report() -> None:
    """R801-7.11: which groups are on Muon in each set-up; the router never is, betas and decay are the report's."""
    on_muon = {
        "adamw_global": set(),
        "muon_e_global": {"experts"},
        "muon_e_a_global": {"experts", "attention"},
        "muon_e_a_local": {"experts", "attention"},
    }
    for variant, expected in on_muon.items():
        optim = config_of("optimizers", variant).optim
        rows = {name: optim.group(name) for name in type(optim).model_fields}
        assert {name for name, row in rows.items() if row.optimizer == "muon"} == expected
        for name, row in rows.items():
            assert row.weight_decay == (0.0 if name in ("norm", "bias") else 0.1)
            assert (row.beta1, row.beta2) == (0.95 if name in expected else 0.9, 0.95)


def test_every_entry_gives_a_recipe() -> None:
    entries = [f for _, f in inspect.getmembers(studies, inspect.isfunction) if not inspect.signature(f).parameters]
    assert len(entries) == 7
    assert all(isinstance(entry(), Recipe) for entry in entries)
