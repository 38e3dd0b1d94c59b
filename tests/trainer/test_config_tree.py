"""The configuration tree: flat, diffable, closed, and every leaf of it alive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from small_training import SMALL, Trace, Trainings, small_config

from contracts.errors import ConfigError
from contracts.events import CheckpointSaved, DataRead, Scalar
from trainer import TrainConfig
from trainer.config import SOURCES

# What to change each field to, and which other fields must be set for it to matter.
Case = tuple[Scalar, dict[str, Scalar]]
ADAMW, MUON = {"optimizer": "adamw"}, {"optimizer": "muon"}
MTP: dict[str, Scalar] = {"mtp.num_modules": 1}
QUANTISED: dict[str, Scalar] = {"numerics.experts.products": "quantised"}
EXAMPLES = Path(__file__).parent / "examples"
ANSWERS: dict[str, Scalar] = {"data.documents": "answers"}
FOLDER: dict[str, Scalar] = {"data.folder": str(EXAMPLES / "corpus"), "data.mixture.folders": "prose=0.5 code=0.5"}
CASES: dict[str, Case] = {
    "seed": (2, {}),
    "steps": (5, {}),
    "model.vocab_size": (257, {}),
    "model.num_layers": (3, {}),
    "model.d_model": (20, {}),
    "model.num_heads": (4, {}),
    "model.num_kv_heads": (2, {}),
    "model.head_dim": (10, {}),
    "model.qk_norm": (True, {}),
    "model.attention_bias": (True, {}),
    "model.attention_scale": (2.0, {}),
    "model.rope_base": (100.0, {}),
    "model.rope_scale": (2.0, {}),
    "model.norm_eps": (1e-2, {}),
    "model.embedding_scale": (2.0, {}),
    "model.residual_scale": (0.5, {}),
    "model.tie_embeddings": (True, {}),
    "model.logit_softcap": (1.0, {}),
    "model.init.embedding_std": (0.1, {}),
    "model.init.head_std": (0.1, {}),
    "model.init.attention_std": (0.2, {}),
    "model.init.experts_std": (0.2, {}),
    "model.init.router_std": (0.2, {}),
    "model.init.cut_stds": (1.0, {}),
    "model.init.scale_outputs_by_depth": (False, {}),
    "moe.num_experts": (5, {}),
    "moe.top_k": (3, {}),
    "moe.d_expert": (12, {}),
    "moe.num_shared_experts": (1, {}),
    "moe.num_dense_layers": (1, {}),
    "moe.d_dense": (12, {"moe.num_dense_layers": 1}),
    "moe.choice_bias": (True, {}),
    "moe.choice_bias_rate": (0.1, {"moe.choice_bias": True}),
    "moe.gate": ("sigmoid", {}),
    "moe.renormalise": (False, {}),
    "moe.routed_scale": (2.0, {}),
    "moe.router_bias": (True, {}),
    "moe.router_temperature": (2.0, {}),
    "moe.router_jitter": (0.1, {}),
    "moe.balance.coef": (0.5, {}),
    "moe.balance.warmup_steps": (3, {}),
    "moe.balance.until_step": (2, {}),
    "moe.balance.scope": ("micro", {}),
    "moe.z_loss.coef": (0.5, {}),
    "moe.z_loss.warmup_steps": (3, {}),
    "moe.z_loss.until_step": (2, {}),
    "mtp.num_modules": (1, {}),
    "mtp.coef": (0.5, MTP),
    "mtp.anneal_from": (2, MTP),
    "mtp.anneal_steps": (3, MTP | {"mtp.anneal_from": 2}),
    "mtp.final_coef": (0.2, MTP | {"mtp.anneal_from": 2, "mtp.anneal_steps": 2}),
    "mtp.teacher": ("main_head", MTP),
    "mtp.freeze_main_until": (2, MTP),
    "loss.label_smoothing": (0.1, {}),
    "loss.head_z_coef": (0.1, {}),
    "muon.compute": ("bfloat16", {}),
    "muon.iterations": (3, {}),
    "muon.nesterov": (False, {}),
    "muon.rms": (0.4, {}),
    "muon.split_heads": (True, {}),
    "clip.max_norm": (0.1, {}),
    "clip.from_step": (3, {"clip.max_norm": 0.1}),
    "schedule.kind": ("cosine", {}),
    "schedule.warmup_steps": (4, {}),
    "schedule.from_step": (1, {"schedule.warmup_steps": 4}),
    "schedule.decay_start": (2, {"schedule.kind": "linear"}),
    "schedule.decay_steps": (3, {"schedule.kind": "cosine"}),
    "schedule.min_ratio": (0.5, {"schedule.kind": "linear", "schedule.decay_steps": 3}),
    "data.batch_size": (4, {}),
    "data.seq_len": (24, {}),
    "data.corpus_bytes": (20_000, {}),
    "data.stride": (8, {}),
    "data.shuffle": (False, {}),
    "data.documents": ("packed", {}),
    "data.folder": (str(EXAMPLES / "other_corpus"), FOLDER),
    "data.examples": (str(EXAMPLES / "differences.jsonl"), {**ANSWERS, "data.examples": str(EXAMPLES / "sums.jsonl")}),
    "data.balance_window": (2, {"data.documents": "packed", "data.seq_len": 400}),
    "data.mixture.library": (2.0, {}),
    "data.mixture.packages": (2.0, {}),
    "data.mixture.documentation": (2.0, {}),
    "data.mixture.encodings": (2.0, {}),
    "data.mixture.changes": ("3: library=0", {}),
    "data.mixture.folders": ("prose=1 code=0", FOLDER),
    "parallel.dp_size": (4, {}),
    "parallel.cp_size": (2, {}),
    "parallel.accumulation": (2, {}),
    "checkpoint.every": (3, {}),
    "checkpoint.keep": (1, {}),
    "checkpoint.at_end": (False, {"steps": 5}),
    "diagnostics.norms_every": (2, {}),
    "diagnostics.routing_every": (2, {}),
    "diagnostics.sources_every": (2, {}),
    "diagnostics.console_every": (2, {}),
    "diagnostics.detail_every": (2, {}),
    "diagnostics.ranks_every": (2, {}),
    "numerics.router_input": ("bfloat16", {}),
    "numerics.compute": ("bfloat16", {}),
    "data.tokenizer": (str(EXAMPLES / "tokenizer.json"), {"model.vocab_size": 300}),
    "numerics.experts.products": ("kernels", {}),
    "numerics.experts.dispatch": ("bf16", QUANTISED | {"numerics.experts.forward": "bf16"}),
    "numerics.experts.forward": ("mxfp8", QUANTISED),
    "numerics.experts.backward": ("nvfp4", QUANTISED),
    "numerics.experts.combine": ("mxfp8", QUANTISED),
    "numerics.on_nonfinite": ("continue", {"optim.head.lr": 1e38, "clip.max_norm": 0.0}),
}
for group in ("embedding", "head", "norm", "bias", "router", "attention", "experts"):
    context: dict[str, Scalar] = {"model.attention_bias": True} if group == "bias" else {}
    is_vector = group in ("norm", "bias")
    other = "adamw" if group in ("attention", "experts") else "muon"
    row = f"optim.{group}"
    CASES |= {
        # Muon refuses vectors, so their row is walked by its other fields and test_muon_needs_matrices.
        **({} if is_vector else {f"{row}.optimizer": (other, context)}),
        f"{row}.lr": (0.05, context),
        f"{row}.weight_decay": (0.5, context),
        f"{row}.beta1": (0.5, context),
        f"{row}.beta2": (0.5, context | {f"{row}.optimizer": "adamw"}),
        f"{row}.eps": (1e-1, context),
    }
# What must change nothing: it saves memory, or spreads the work (test_balance_splits.py, test_processes.py).
BIT_FOR_BIT = {"numerics.activation_checkpointing", "parallel.processes", "parallel.ep_size", "parallel.places"}
REFUSED = {"optim.norm.optimizer", "optim.bias.optimizer"}
DECLARATIONS = ("lr/", "weight_decay/")  # series that repeat the config do not count as an effect

Observed = tuple[object, ...]


def observe(trace: Trace, trainings: Trainings) -> Observed:
    """Everything that a training shows, without what only repeats its config."""
    metrics = {
        step: {name: repr(value) for name, value in values.items() if not name.startswith(DECLARATIONS)}
        for step, values in trace.metrics.items()
    }
    order = [(event.step, event.sample_hash) for event in trace.of(DataRead)]
    hashes = [(event.step, event.sha256) for event in trace.of(CheckpointSaved)]
    folders = sorted(path.name for path in (trainings.run_folder / "checkpoints").glob("*"))
    steps_on_console = [line.split()[1] for line in trace.console]
    return metrics, order, hashes, folders, steps_on_console, trace.finished.step


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, Scalar]], Observed]:
    """What a training with the given overrides shows; each set is trained once."""
    known: dict[str, Observed] = {}

    def train(overrides: dict[str, Scalar]) -> Observed:
        key = repr(sorted(overrides.items()))
        if key not in known:
            folder = tmp_path_factory.mktemp("walk")
            trainings = Trainings(run_folder=folder / "run", project=folder)
            known[key] = observe(trainings.here(small_config().with_overrides(overrides)), trainings)
        return known[key]

    return train


def test_walk_is_complete() -> None:
    """About a hundred fields, none of them outside the walk."""
    assert set(TrainConfig().flat()) == set(CASES) | REFUSED | BIT_FOR_BIT
    assert len(CASES) > 100


@pytest.mark.parametrize("field", CASES)
def test_every_field_matters(field: str, observed: Callable[[dict[str, Scalar]], Observed]) -> None:
    """Each leaf changes a metric, the data order, or which checkpoints exist with which hash."""
    value, context = CASES[field]
    assert small_config().with_overrides(context).flat()[field] != value
    assert observed({**context, field: value}) != observed(context)


@pytest.mark.parametrize("field", sorted(REFUSED))
def test_muon_needs_matrices(field: str, trainings: Trainings) -> None:
    with pytest.raises(ConfigError, match=f"{field} is muon, but .* is a vector"):
        trainings.here(small_config().with_overrides({field: "muon", "model.attention_bias": True}))


def test_flat_config_is_diffable() -> None:
    before, after = TrainConfig(), TrainConfig().with_overrides({"moe.balance.coef": 0.1, "optim.router.lr": "2e-3"})
    changed = {key for key, value in after.flat().items() if before.flat()[key] != value}
    assert changed == {"moe.balance.coef", "optim.router.lr"}
    assert after.optim.router.lr == 2e-3
    assert TrainConfig().with_overrides(after.flat()) == after


@pytest.mark.parametrize(
    ("overrides", "message", "remedy"),
    [
        ({"moe.balance.coeff": 1}, "unknown config field 'moe.balance.coeff'", "moe.balance.coef"),
        ({"balance_coef": 1}, "unknown config field 'balance_coef'", "moe.balance.coef"),
        ({"moe.balance": 1}, "'moe.balance' is a section", "moe.balance.coef"),
        ({"moe.gate": "tanh"}, "config field 'moe.gate'.*'tanh'", "moe.gate"),
        ({"optim.head.lr": float("nan")}, "config field 'optim.head.lr'", "optim.head.lr"),
        ({"data.batch_size": 7}, "data.batch_size 7 is not a multiple of parallel.dp_size 2", "fields named"),
        ({"parallel.accumulation": 3}, "data.batch_size 8 .* times parallel.accumulation 3", "fields named"),
        ({"parallel.cp_size": 3}, r"data.seq_len 16 is not a multiple of 2 \* parallel.cp_size = 6", "fields named"),
        ({"parallel.places": "0,0"}, "parallel.places 0,0 does not name each of 2 ranks once", "fields named"),
        ({"moe.num_dense_layers": 2}, "moe.num_dense_layers 2 leaves no expert layer", "fields named"),
        ({"mtp.num_modules": 16}, "mtp.num_modules 16 needs a longer data.seq_len 16", "fields named"),
        ({"data.seq_len": 7000}, "data.seq_len 7000 is beyond the rotation of model.rope_base 10000", "fields named"),
        ({"model.vocab_size": 255}, "config field 'model.vocab_size'", "model.vocab_size"),
        ({"moe.top_k": 9}, "moe.top_k 9 is larger than moe.num_experts 4", "fields named"),
        ({f"data.mixture.{s}": 0 for s in SOURCES}, "no source", ""),
        ({"data.mixture.changes": "2: library=0; 2: library=1"}, "changes: step 2 does not come after step 2", ""),
        ({"data.mixture.changes": "2: books=1"}, "'2: books=1' is not like .*the sources are library", ""),
        ({"data.mixture.changes": "2: " + " ".join(f"{s}=0" for s in SOURCES)}, "no source .*from step 2 on", ""),
        ({"data.folder": "books"}, "data.folder and data.mixture.folders belong together", ""),
        ({"data.folder": "books", "data.mixture.folders": "a=1 a=2"}, "'a=1 a=2' is not like 'books=0.5 code", ""),
        ({"data.balance_window": 2}, "data.balance_window needs rows of unequal work", ""),
        ({"data.documents": "packed", "data.stride": 4}, "data.stride belongs to a stream", ""),
    ],
)
def test_wrong_fields_are_named(overrides: dict[str, Scalar], message: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        TrainConfig().with_overrides(SMALL).with_overrides(overrides)
    assert remedy in caught.value.remedy
