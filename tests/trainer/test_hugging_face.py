"""Export and import in the Qwen3-MoE layout. The agreement with transformers itself needs that library."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from small_training import Trainings, equal_bits, small_config
from torch import Tensor

from contracts.errors import ConfigError, LatheError, NotFound, UserInputError
from contracts.events import CheckpointSaved, Scalar
from trainer import Parts, TrainConfig
from trainer.checkpoint import load_checkpoint
from trainer.exchange import main
from trainer.generate import Sampling, full_logits, generate
from trainer.hugging_face import export_model, import_model
from trainer.model import LanguageModel
from trainer.safetensors_file import read_tensors, write_tensors
from trainer.targets import Sequences
from trainer.weights import initial_weights

FAMILY: dict[str, dict[str, Scalar]] = {
    "plain": {},
    "dense, tied, bias": {
        "moe.num_dense_layers": 1, "model.tie_embeddings": True, "model.attention_bias": True,
        "moe.renormalise": False, "model.rope_base": 5000.0, "moe.top_k": 3, "model.vocab_size": 300,
    },
}  # fmt: skip


def config_of(family: str, **overrides: Scalar) -> TrainConfig:
    return small_config(model__qk_norm=True, **overrides).with_overrides(FAMILY[family])


def lively(config: TrainConfig) -> dict[str, Tensor]:
    """Weights of which none is left at 0 or 1, so that no mix-up goes unseen."""
    generator = torch.Generator().manual_seed(7)
    return {n: w + 0.05 * torch.randn(w.shape, generator=generator) for n, w in initial_weights(config).items()}


def tokens() -> Tensor:
    return torch.randint(0, 256, (3, 16), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("family", FAMILY)
def test_import_gives_back_the_exported_bits(family: str, tmp_path: Path) -> None:
    config = config_of(family, mtp__num_modules=1)
    weights = lively(config)
    export_model(config, weights, tmp_path)
    found = import_model(tmp_path)
    assert set(found.weights) == set(weights)
    assert all(equal_bits(found.weights[name], weights[name]) for name in weights)
    again = small_config().with_overrides(found.overrides)
    assert (again.model.num_layers, again.moe.top_k, again.mtp.num_modules) == (2, config.moe.top_k, 1)
    sequences = Sequences(tokens_BS=torch.cat([tokens(), tokens()[:, :1]], dim=1)[:2])
    one, two = (LanguageModel(c, Parts()).forward(weights, sequences, 0).lm_loss for c in (config, again))
    assert torch.equal(one, two)


@pytest.mark.parametrize("family", FAMILY)
def test_transformers_computes_the_same_logits(family: str, tmp_path: Path) -> None:
    """Logits to 1e-5 in float32, KL <= 1e-9 and equal text after a reload by transformers; back from its own export."""
    transformers = pytest.importorskip("transformers")
    config = config_of(family)
    weights = lively(config)
    export_model(config, weights, tmp_path / "ours")
    loaded = transformers.Qwen3MoeForCausalLM.from_pretrained(tmp_path / "ours", dtype=torch.float32)
    with torch.no_grad():
        theirs = loaded(tokens()).logits
    ours = full_logits(config, weights, tokens())
    assert (ours - theirs).abs().max() < 1e-5
    ours_log, theirs_log = ours.double().log_softmax(dim=-1), theirs.double().log_softmax(dim=-1)
    assert (ours_log.exp() * (ours_log - theirs_log)).sum(dim=-1).max() <= 1e-9
    prompts, new = tokens()[:, :6], 12
    with torch.no_grad():
        text = loaded.generate(prompts, max_new_tokens=new, min_new_tokens=new, do_sample=False)
    assert torch.equal(text, generate(config, weights, prompts, new, Sampling(), torch.Generator()))
    loaded.save_pretrained(tmp_path / "theirs")
    back = import_model(tmp_path / "theirs")
    assert all(equal_bits(back.weights[name], weights[name]) for name in weights)


def test_joined_experts_and_several_files(tmp_path: Path) -> None:
    """The layout of transformers 5 in memory, spread over two files with an index."""
    config = config_of("plain")
    weights = lively(config)
    export_model(config, weights, tmp_path)
    stored = read_tensors(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    experts = {name: stored.pop(name) for name in [*stored] if ".mlp.experts." in name}
    joined = {}
    for layer in range(2):
        prefix = f"model.layers.{layer}.mlp.experts"
        gate_up = [torch.cat([experts[f"{prefix}.{e}.{m}_proj.weight"] for m in ("gate", "up")]) for e in range(4)]
        joined[f"{prefix}.gate_up_proj"] = torch.stack(gate_up)
        joined[f"{prefix}.down_proj"] = torch.stack([experts[f"{prefix}.{e}.down_proj.weight"] for e in range(4)])
    files = {"model-1.safetensors": stored, "model-2.safetensors": joined}
    for file, tensors in files.items():
        write_tensors(tmp_path / file, tensors)
    index = {"weight_map": {name: file for file, tensors in files.items() for name in tensors}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert all(equal_bits(import_model(tmp_path).weights[name], weights[name]) for name in weights)


def test_what_the_family_lacks_is_named(tmp_path: Path) -> None:
    config = config_of("plain", moe__gate="sigmoid", moe__num_shared_experts=1)
    with pytest.raises(ConfigError, match=r"moe.num_shared_experts=1, moe.gate=sigmoid") as caught:
        export_model(config, {}, tmp_path)
    assert "moe.gate=softmax" in caught.value.remedy


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"model_type": "llama"}, ConfigError, "model_type=llama"),
        ({"mlp_only_layers": [1]}, ConfigError, "mlp_only_layers"),
        ({"rope_parameters": {"rope_type": "yarn"}}, ConfigError, "yarn"),
        ({"hidden_size": 20}, ConfigError, "has shape"),
        ({"num_experts": 5}, ConfigError, "config.json asks for"),
        ({"mlp_only_layers": [0]}, ConfigError, "no 'model.layers.0.mlp.gate_proj.weight'"),
    ],
)
def test_other_models_are_refused(
    change: dict[str, object], error: type[LatheError], text: str, tmp_path: Path
) -> None:
    config = config_of("plain")
    export_model(config, initial_weights(config), tmp_path)
    described = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(described | change))
    with pytest.raises(error, match=text):
        import_model(tmp_path)


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"config.json"):
        import_model(tmp_path)
    config = config_of("plain")
    export_model(config, initial_weights(config), tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserInputError, match="cut off"):
        import_model(tmp_path)
    path.write_bytes(b"no")
    with pytest.raises(UserInputError, match="no readable"):
        import_model(tmp_path)
    path.unlink()
    with pytest.raises(NotFound, match=r"model\.safetensors"):
        import_model(tmp_path)


def test_the_tokenizer_of_a_training_is_exported_with_it(trainings: Trainings, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    tokenizer = Path(__file__).parent / "examples" / "tokenizer.json"
    (trainings.project / "own.json").write_bytes(tokenizer.read_bytes())
    own: dict[str, Scalar] = {"model.qk_norm": True, "model.vocab_size": 300, "steps": 1}
    config = small_config().with_overrides({**own, "data.tokenizer": str(tokenizer)})
    trained = trainings.here(config).of(CheckpointSaved)[-1]
    sets = [
        text for key, value in (own | {"data.tokenizer": "own.json"}).items() for text in ("--set", f"{key}={value}")
    ]
    assert main(["export", str(trainings.project), trained.path, str(tmp_path / "model"), *sets]) == 0
    assert (tmp_path / "model" / "tokenizer.json").read_bytes() == tokenizer.read_bytes()


def test_exchange_of_checkpoints(trainings: Trainings, new_trainings, tmp_path: Path, capsys) -> None:
    """From a trained checkpoint to a folder, and back to a checkpoint from which a training goes on."""
    config = small_config(model__qk_norm=True)
    trained = trainings.here(config).of(CheckpointSaved)[-1]
    export = ["export", str(trainings.project), trained.path, str(tmp_path / "model"), "--set", "model.qk_norm=true"]
    assert main(export[:-2]) == 1
    assert "model.qk_norm=False" in capsys.readouterr().err
    assert main([*export, "--set", "moe.d_expert=12"]) == 1
    assert "the weights are not those of the config" in capsys.readouterr().err
    assert main(export) == 0
    assert main(["import", str(tmp_path / "model"), str(tmp_path / "start")]) == 0
    overrides = json.loads(capsys.readouterr().out)
    before, after = (load_checkpoint(Path(path)).weights for path in (trained.path, str(tmp_path / "start")))
    assert all(equal_bits(after[name], before[name]) for name in before)
    goes_on = new_trainings().here(small_config().with_overrides(overrides), start_checkpoint=str(tmp_path / "start"))
    first = trainings.here(config).metrics[1]["lm_loss"]
    assert goes_on.metrics[1]["lm_loss"] < first
