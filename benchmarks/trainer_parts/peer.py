"""The peer: `Qwen3MoeForCausalLM` of Hugging Face transformers with our weights, and torch's fused AdamW."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from contracts.errors import EnvironmentFault
from trainer.config import TrainConfig
from trainer.hugging_face import export_model

EXPERTS = ("grouped_mm", "eager")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def transformers() -> Any:
    """The package. Raises EnvironmentFault when it is not installed."""
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        raise EnvironmentFault(
            f"the peer of this benchmark is not installed ({error.name} is missing)",
            remedy="pip install '.[peer-huggingface]' in Lathe's folder",
        ) from error


def model_of(config: TrainConfig, weights: Mapping[str, Tensor], experts: str, dtype: torch.dtype) -> Any:
    """A Qwen3-MoE with these weights, whose experts are computed the way that `experts` names."""
    with tempfile.TemporaryDirectory() as folder:
        export_model(config, weights, Path(folder))
        family = transformers().Qwen3MoeForCausalLM
        model = family.from_pretrained(folder, dtype=dtype, experts_implementation=experts, attn_implementation="sdpa")
    return model.train()


class PeerSteps:
    """A training of the peer; `advance` does one step on the next batch: loss, gradients, clipping, update."""

    def __init__(self, model: Any, batches: list[Tensor], learning_rate: float) -> None:
        """`batches` are [B, S + 1] tokens, read in turn."""
        self._model, self._batches, self._step = model, batches, 0
        self._optimizer = torch.optim.AdamW(
            model.parameters(), lr=learning_rate, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True
        )

    def advance(self) -> float:
        tokens_BS = self._batches[self._step % len(self._batches)]
        self._step += 1
        loss = self.loss(tokens_BS)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0, foreach=True)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())

    def loss(self, tokens_BS: Tensor) -> Tensor:
        logits_BSV = self._model(input_ids=tokens_BS[:, :-1], use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits_BSV.flatten(0, 1).float(), tokens_BS[:, 1:].reshape(-1))
