"""Small reproductions: the variants of each study as recipes, such as `trainer.recipes.studies:muon_e_a_global`.

All share the small model, its data and its number of parameters, but for the MTP modules; what they say holds for it
alone. `python -m benchmarks.trainer_studies` trains them over seeds.
"""

from __future__ import annotations

from collections.abc import Mapping

from contracts.events import Scalar
from trainer.config import TrainConfig
from trainer.recipe import Recipe

Variant = Mapping[str, Scalar]

ADAMW: Variant = {"optimizer": "adamw", "beta1": 0.9, "eps": 1e-8}
_LOCAL: Variant = {"moe.balance.scope": "micro"}


def _adamw(*groups: str) -> dict[str, Scalar]:
    return {f"optim.{group}.{key}": value for group in groups for key, value in ADAMW.items()}


# The first variant of a study is what the others are compared with.
STUDIES: Mapping[str, Mapping[str, Variant]] = {
    "optimizers": {  # R801-7.11, table 5; the router is on AdamW in all
        "adamw_global": _adamw("attention", "experts"),
        "muon_e_global": _adamw("attention"),
        "muon_e_a_global": {},
        "muon_e_a_local": _LOCAL,
    },
    "balance": {  # R801-3.16
        "global_batch": {},
        "micro_batch": _LOCAL,
        "choice_bias": {"moe.balance.coef": 0.0, "moe.choice_bias": True, "moe.choice_bias_rate": 0.01},
        "no_balance": {"moe.balance.coef": 0.0},
    },
    "experts": {  # RM2-2.2: a quarter of the experts active in both
        "coarse": {},
        "fine_grained": {"moe.num_experts": 32, "moe.top_k": 8, "moe.d_expert": 8},
    },
    "gates": {  # RM2-2.3, RM2-2.4
        "softmax": {},
        "sigmoid": {"moe.gate": "sigmoid"},
        "sigmoid_learned_bias": {"moe.gate": "sigmoid", "moe.router_bias": True, "moe.balance.coef": 0.001},
    },
    "mtp": {  # RM2-2.7
        "next_token": {},
        "one_module": {"mtp.num_modules": 1},
    },
    "formats": {  # RC2-3.2: routed experts in emulated MXFP8, some twenty times slower than float32
        "float32": {},
        "mxfp8": {"numerics.experts.products": "quantised", "numerics.experts.forward": "mxfp8"},
    },
}


def config_of(study: str, variant: str, overrides: Mapping[str, Scalar] | None = None) -> TrainConfig:
    return TrainConfig().with_overrides(dict(STUDIES[study][variant]) | dict(overrides or {}))


def adamw_global() -> Recipe:
    return Recipe(config=config_of("optimizers", "adamw_global"))


def muon_e_global() -> Recipe:
    return Recipe(config=config_of("optimizers", "muon_e_global"))


def muon_e_a_global() -> Recipe:
    return Recipe(config=config_of("optimizers", "muon_e_a_global"))


def muon_e_a_local() -> Recipe:
    return Recipe(config=config_of("optimizers", "muon_e_a_local"))


def fine_grained() -> Recipe:
    return Recipe(config=config_of("experts", "fine_grained"))


def sigmoid() -> Recipe:
    return Recipe(config=config_of("gates", "sigmoid"))


def one_module() -> Recipe:
    return Recipe(config=config_of("mtp", "one_module"))
