"""A cut-down Qwen3-MoE training step on one NVIDIA GPU in bfloat16, one JSON object as the last line.

The widths of Qwen3-30B-A3B (2048 wide, 32 and 4 heads of 128, 128 experts of 768, 8 a token) with fewer layers and a
smaller vocabulary, made of our Triton kernels: fused expert MLP, attention within documents, loss without whole logits.
Loss and gradients are checked against the same model on the kernels' references first, at a small size. A step is
forward, backward and torch's fused AdamW on float32 weights.

    mfu          FLOPs of the model (6 per active parameter and token, and those of attention, causal ones counted half)
                 per second / the peak of the GPU
    tokens_per_s tokens by seconds of a step, median

Without a GPU it prints {"status": "not run"}.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kernels.cross_entropy import cross_entropy
from kernels.grouped_gemm import expert_mlp, sort_by_expert
from kernels.measure import require_close
from kernels.packed_attention import packed_attention

GOAL = 0.35
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "B200": 2250e12}  # dense bf16 FLOP/s, by the data sheets
_EPS = 1e-6
_COSINE = 0.99


@dataclass(frozen=True, kw_only=True)
class Size:
    """One model and batch; `backend` of the kernels, None for the fast one."""

    layers: int = 4
    width: int = 2048
    heads: int = 32
    kv_heads: int = 4
    head: int = 128
    experts: int = 128
    choices: int = 8
    hidden: int = 768
    vocabulary: int = 32_768
    rows: int = 8
    seq_len: int = 4096
    backend: str | None = None

    @property
    def tokens(self) -> int:
        return self.rows * self.seq_len

    def flops(self) -> float:
        """Of the model for one step, whatever is computed again."""
        attention = self.width * self.head * (2 * self.heads + 2 * self.kv_heads)
        routed = 3 * self.choices * self.width * self.hidden + self.width * self.experts
        active = self.layers * (attention + routed) + self.width * self.vocabulary
        scores = self.layers * self.heads * self.head * self.seq_len / 2
        return self.tokens * (6 * active + 12 * scores)


Weights = dict[str, Tensor]


def random_weights(size: Size, device: str) -> Weights:
    shapes: dict[str, tuple[int, ...]] = {
        "embedding": (size.vocabulary, size.width),
        "head": (size.vocabulary, size.width),
    }
    for layer in range(size.layers):
        shapes |= {
            f"{layer}.qkv": ((size.heads + 2 * size.kv_heads) * size.head, size.width),
            f"{layer}.out": (size.width, size.heads * size.head),
            f"{layer}.router": (size.experts, size.width),
            f"{layer}.gate_up": (size.experts, size.width, 2 * size.hidden),
            f"{layer}.down": (size.experts, size.hidden, size.width),
        }
    torch.manual_seed(0)
    return {n: (torch.randn(s, device=device) * 0.02).requires_grad_() for n, s in shapes.items()}


def loss_of(size: Size, weights: Weights, tokens_T1: Tensor, ends_B: Tensor) -> Tensor:
    """Mean cross entropy; products in bfloat16, routers and norms in float32."""
    low = {name: weight.to(torch.bfloat16) for name, weight in weights.items() if not name.endswith("router")}
    x_TD = functional.embedding(tokens_T1[:, 0], low["embedding"])
    for layer in range(size.layers):
        x_TD = x_TD + attention(size, low, layer, normed(x_TD), ends_B)
        x_TD = x_TD + experts(size, low, weights[f"{layer}.router"], layer, normed(x_TD))
    return cross_entropy(normed(x_TD), low["head"], tokens_T1[:, 1], backend=size.backend).total


def normed(x_TD: Tensor) -> Tensor:
    return functional.rms_norm(x_TD, x_TD.shape[-1:], eps=_EPS)


def attention(size: Size, low: Weights, layer: int, x_TD: Tensor, ends_B: Tensor) -> Tensor:
    qkv_TAC = functional.linear(x_TD, low[f"{layer}.qkv"]).view(len(x_TD), -1, size.head)
    q, k, v = torch.split(qkv_TAC, [size.heads, size.kv_heads, size.kv_heads], dim=1)
    out_THC = packed_attention(normed(q), normed(k), v, ends_B, backend=size.backend)
    return functional.linear(out_THC.flatten(1), low[f"{layer}.out"])


def experts(size: Size, low: Weights, router_ED: Tensor, layer: int, x_TD: Tensor) -> Tensor:
    scores_TE = functional.linear(x_TD.float(), router_ED).softmax(dim=-1)
    gates_TK, choice_TK = scores_TE.topk(size.choices, dim=-1)
    gates_TK = gates_TK / gates_TK.sum(dim=-1, keepdim=True)
    permutation = sort_by_expert(choice_TK, size.experts)
    matrices = (low[f"{layer}.gate_up"], low[f"{layer}.down"])
    return expert_mlp(x_TD, gates_TK, *matrices, permutation, backend=size.backend)


def batch(size: Size, device: str) -> tuple[Tensor, Tensor]:
    """Tokens with their targets, and where rows end."""
    tokens_T1 = torch.randint(0, size.vocabulary, (size.tokens, 2), device=device)
    ends_B = torch.arange(size.seq_len, size.tokens + 1, size.seq_len, dtype=torch.int32, device=device)
    return tokens_T1, ends_B


def check(device: str) -> None:
    """Raise AssertionError when kernels and references disagree on a small model."""
    small = {"layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "head": 32, "experts": 8, "choices": 2, "hidden": 32,
             "vocabulary": 512, "rows": 2, "seq_len": 128}  # fmt: skip
    found = []
    for backend in (None, "reference"):
        size = Size(**small, backend=backend)
        weights = random_weights(size, device)
        loss = loss_of(size, weights, *batch(size, device))
        grads = torch.autograd.grad(loss, [*weights.values()])
        found.append((loss.detach(), torch.cat([grad.reshape(-1) for grad in grads])))
    (loss, grad), (their_loss, their_grad) = found
    require_close([loss], [their_loss], relative=1e-3)
    cosine = float(functional.cosine_similarity(grad, their_grad, dim=0))  # a few tokens change experts by rounding
    if cosine < _COSINE:
        raise AssertionError(f"the gradients' cosine is {cosine:.4f}")


def seconds(size: Size, steps: int) -> list[float]:
    """Of each step on the GPU."""
    weights = random_weights(size, "cuda")
    optimizer = torch.optim.AdamW(weights.values(), lr=1e-4, fused=True)
    inputs, times = batch(size, "cuda"), []
    for number in range(steps + 3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        loss_of(size, weights, *inputs).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        end.record()
        end.synchronize()
        if number >= 3:
            times.append(float(begin.elapsed_time(end)) / 1e3)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object (the only output there is)")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.stdout.write(json.dumps({"status": "not run", "reason": "no CUDA device"}) + "\n")
        return
    check("cuda")
    size, name = Size(layers=options.layers, rows=options.rows), torch.cuda.get_device_name()
    times = seconds(size, options.steps)
    peak = next((flops for key, flops in PEAKS.items() if key in name), None)
    step_s = statistics.median(times)
    figures: dict[str, Any] = {"status": "run", "device": name, "torch": torch.__version__, "step_s": step_s}
    figures |= {"tokens_per_s": size.tokens / step_s, "tflops": size.flops() / step_s / 1e12}
    figures["peak_memory_bytes"] = torch.cuda.max_memory_allocated()
    if peak is not None:
        figures |= {"mfu": size.flops() / step_s / peak, "goal": GOAL}
        figures["is_met"] = figures["mfu"] >= GOAL
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
