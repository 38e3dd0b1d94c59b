"""Attention over packed rows, forward and backward, against the peer's document mask.

Both turn queries and keys and attend, from the same projected values; projections are left out of both. The peer's mask
is made once, outside the measurement, as its model makes it for position ids that start anew in each document.
"""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import torch
from torch import Tensor

from benchmarks.trainer_parts.peer import DTYPES, transformers
from kernels.measure import interleave, require_close, speedup
from trainer.attention import tables_of
from trainer.config import ModelConfig

# Lengths of the documents of one row of 4096 tokens.
ROWS = {
    "12 documents": (700, 40, 512, 96, 333, 64, 900, 201, 128, 450, 610, 62),
    "64 documents": (64,) * 64,
    "5 documents": (1700, 900, 800, 600, 96),
}
_HEADS, _KV_HEADS, _WIDTH = 8, 4, 32
_IMPLEMENTATIONS = ("sdpa", "eager")


def measure(row: str, compute: str, *, rounds: int) -> float:
    """Seconds of the faster peer / ours. Raises AssertionError when outputs or gradients differ."""
    lengths, dtype = torch.tensor(ROWS[row]), DTYPES[compute]
    seq_len = int(lengths.sum())
    torch.manual_seed(0)
    qkv_BSAC = torch.randn(1, seq_len, _HEADS + 2 * _KV_HEADS, _WIDTH).to(dtype).requires_grad_()
    grad_BSD = torch.randn(1, seq_len, _HEADS * _WIDTH).to(dtype)
    document_BS = torch.repeat_interleave(torch.arange(len(lengths)), lengths).unsqueeze(0)
    tables = tables_of(ModelConfig(num_heads=_HEADS, num_kv_heads=_KV_HEADS, head_dim=_WIDTH), seq_len, compute)
    peer = _Peer(lengths, dtype)

    def ours() -> list[Tensor]:
        out_BSD = tables.attend(qkv_BSAC, tables.sight(document_BS))
        return [out_BSD.detach(), *torch.autograd.grad(out_BSD, qkv_BSAC, grad_BSD)]

    def theirs(implementation: str) -> list[Tensor]:
        out_BSD = peer.attend(qkv_BSAC, implementation)
        return [out_BSD.detach(), *torch.autograd.grad(out_BSD, qkv_BSAC, grad_BSD)]

    require_close(ours(), theirs("sdpa"), relative=1e-3 if compute == "float32" else 6e-2)
    candidates = {"ours": ours} | {name: lambda name=name: theirs(name) for name in _IMPLEMENTATIONS}
    times = interleave(candidates, rounds=rounds, warmup=1)
    return min(speedup(times, "ours", name) for name in _IMPLEMENTATIONS)


class _Peer:
    """Rotation, mask and attention functions of the peer; its rotary pairs lie half a head apart."""

    def __init__(self, lengths: Tensor, dtype: torch.dtype) -> None:
        family = transformers().models.qwen3_moe.modeling_qwen3_moe
        config = transformers().Qwen3MoeConfig(
            num_attention_heads=_HEADS, num_key_value_heads=_KV_HEADS, head_dim=_WIDTH, hidden_size=_HEADS * _WIDTH,
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        )  # fmt: skip
        position_BS = torch.cat([torch.arange(int(length)) for length in lengths]).unsqueeze(0)
        embedded = torch.zeros(1, position_BS.shape[1], _HEADS * _WIDTH, dtype=dtype)
        self._rotary = family.Qwen3MoeRotaryEmbedding(config)(embedded, position_ids=position_BS)
        self._turn = family.apply_rotary_pos_emb
        self._module = SimpleNamespace(num_key_value_groups=_HEADS // _KV_HEADS, is_causal=True, training=True)
        self._attend = {
            "sdpa": importlib.import_module("transformers.integrations.sdpa_attention").sdpa_attention_forward,
            "eager": family.eager_attention_forward,
        }
        make_mask = importlib.import_module("transformers.masking_utils").create_causal_mask
        self._mask = {}
        for name in _IMPLEMENTATIONS:
            config._attn_implementation = name
            self._mask[name] = make_mask(
                config=config, inputs_embeds=embedded, attention_mask=None, cache=None, position_ids=position_BS
            )

    def attend(self, qkv_BSAC: Tensor, implementation: str) -> Tensor:
        order = torch.cat([torch.arange(0, _WIDTH, 2), torch.arange(1, _WIDTH, 2)])
        qk_BSJC, v_BSKC = torch.split(qkv_BSAC, [_HEADS + _KV_HEADS, _KV_HEADS], dim=2)
        q, k = torch.split(qk_BSJC[..., order].transpose(1, 2), [_HEADS, _KV_HEADS], dim=1)
        q, k = self._turn(q, k, *self._rotary)
        mask = self._mask[implementation]
        arguments = (self._module, q, k, v_BSKC.transpose(1, 2), mask)
        out_BSHC, _ = self._attend[implementation](*arguments, scaling=_WIDTH**-0.5, dropout=0.0)
        out_BSD: Tensor = out_BSHC.flatten(2)
        return out_BSD
