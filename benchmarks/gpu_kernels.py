"""The Triton kernels on an NVIDIA GPU (written for one H200), one JSON object as the last line.

Correctness first (against the references on small shapes), then medians of interleaved rounds timed by CUDA events.

    gemm_x_torch      speed against torch._grouped_mm, forward and backward, Qwen3-30B's experts: 128 experts, top-8,
                      2048 x 768 (gate and up: 2048 x 1536), 32K tokens, loads uniform and Dirichlet 0.5
    gemm_tflops       our forward, bf16
    quantise_share    bytes read and written a second / the device's memory bandwidth, the slower of the two formats

Without a GPU it prints {"status": "not run"}. An H200 has no MXFP8 or NVFP4 tensor cores: nothing is claimed for them.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kernels import mxfp8, nvfp4
from kernels.cross_entropy import cross_entropy
from kernels.grouped_gemm import bench as grouped_gemm
from kernels.grouped_gemm import expert_mlp, sort_by_expert
from kernels.grouped_gemm import grouped_gemm as product
from kernels.measure import geometric_mean, require_close, speedup
from kernels.packed_attention import packed_attention

EXPERTS, CHOICES, WIDTH, HIDDEN, TOKENS = 128, 8, 2048, 768, 32768
BANDWIDTH_BYTES_S = 4.8e12
"""Of an H200, by its data sheet."""


def interleave(
    candidates: Mapping[str, Callable[[], object]], *, rounds: int, warmup: int = 3
) -> dict[str, list[float]]:
    """Seconds of each candidate in each round by CUDA events."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(warmup + rounds):
        for name, run in candidates.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            begin.record()
            run()
            end.record()
            end.synchronize()
            if number >= warmup:
                times[name].append(begin.elapsed_time(end) / 1e3)
    return times


def check() -> None:
    """Every operation that is timed below, against its reference on a small shape."""
    torch.manual_seed(0)
    x, w = (
        torch.randn(300, 64, device="cuda").to(torch.bfloat16),
        torch.randn(5, 64, 48, device="cuda").to(torch.bfloat16),
    )
    offsets = torch.tensor([17, 17, 150, 151, 290], dtype=torch.int32, device="cuda")
    require_close(
        [product(x, w, offsets, backend="triton")], [product(x, w, offsets, backend="reference")], relative=2e-2
    )
    experts = torch.rand(300, 5, device="cuda").topk(2, dim=1).indices
    gates, down = torch.rand(300, 2, device="cuda"), torch.randn(5, 24, 64, device="cuda").to(torch.bfloat16)
    mlp = [expert_mlp(x, gates, w, down, sort_by_expert(experts, 5), backend=b) for b in ("triton", "reference")]
    require_close(mlp[:1], mlp[1:], relative=3e-2)
    for mode in ("rceil", "floor"):
        mine, theirs = mxfp8.quantise(x, mode=mode), mxfp8.quantise(x, mode=mode, backend="reference")
        assert torch.equal(mine.codes.cpu(), theirs.codes)
        assert torch.equal(mine.scales.cpu(), theirs.scales)
    four, expected = nvfp4.quantise(x), nvfp4.quantise(x, backend="reference")
    assert torch.equal(four.codes.cpu(), expected.codes)
    assert torch.equal(four.scales.cpu(), expected.scales)
    q, k, v = (torch.randn(200, 4, 64, device="cuda").to(torch.bfloat16) for _ in range(3))
    ends = torch.tensor([70, 71, 180], dtype=torch.int32, device="cuda")
    reference = packed_attention(q, k, v, ends, backend="reference")
    require_close([packed_attention(q, k, v, ends)], [reference], relative=3e-2)


def bench_gemm(inner: int, outer: int, loads: str, rounds: int) -> dict[str, float]:
    """One expert product at Qwen3-30B's size."""
    cell = grouped_gemm.Cell(
        rows=TOKENS * CHOICES, inner=inner, outer=outer, experts=EXPERTS, loads=loads, dtype=torch.bfloat16
    )
    offsets = grouped_gemm.ends_of(grouped_gemm.draw_loads(cell, 0)).cuda()
    x = torch.randn(cell.rows, inner, device="cuda", dtype=torch.bfloat16).requires_grad_()
    w = (torch.randn(EXPERTS, inner, outer, device="cuda") / inner**0.5).to(torch.bfloat16).requires_grad_()
    dy = torch.randn(cell.rows, outer, device="cuda", dtype=torch.bfloat16)
    ours, peer = (grouped_gemm.step(p, x, w, offsets, dy) for p in (product, grouped_gemm.torch_gemm))
    require_close(ours, peer, relative=2e-2)
    both = interleave(
        {
            "ours": lambda: grouped_gemm.step(product, x, w, offsets, dy),
            "torch": lambda: grouped_gemm.step(grouped_gemm.torch_gemm, x, w, offsets, dy),
        },
        rounds=rounds,
    )
    with torch.no_grad():
        forward = interleave({"ours": lambda: product(x, w, offsets)}, rounds=rounds)["ours"]
    flops = 2 * cell.rows * inner * outer
    return {"x_torch": speedup(both, "ours", "torch"), "tflops": flops / statistics.median(forward) / 1e12}


def bench_quantisers(rounds: int) -> dict[str, float]:
    """Share of the memory bandwidth for bf16 input."""
    x = torch.randn(65536, 4096, device="cuda", dtype=torch.bfloat16)
    times = interleave({"mxfp8": lambda: mxfp8.quantise(x), "nvfp4": lambda: nvfp4.quantise(x)}, rounds=rounds)
    moved = {"mxfp8": x.numel() * (3 + 1 / 32), "nvfp4": x.numel() * (2.5 + 1 / 16)}
    return {name: moved[name] / statistics.median(t) / BANDWIDTH_BYTES_S for name, t in times.items()}


def bench_attention(rounds: int) -> float:
    """Speed against torch's attention on each document alone, forward and backward."""
    ends = torch.arange(4096, 32769, 4096, dtype=torch.int32, device="cuda")
    q, k, v = (torch.randn(32768, 16, 128, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(3))
    dy = torch.randn_like(q)

    def peer() -> tuple[Tensor, ...]:
        a, b, c = (t.view(8, 4096, 16, 128).transpose(1, 2) for t in (q, k, v))
        y = functional.scaled_dot_product_attention(a, b, c, is_causal=True)
        return torch.autograd.grad(y, (q, k, v), dy.view(8, 4096, 16, 128).transpose(1, 2))

    ours = lambda: torch.autograd.grad(packed_attention(q, k, v, ends), (q, k, v), dy)  # noqa: E731
    return speedup(interleave({"ours": ours, "torch": peer}, rounds=rounds), "ours", "torch")


def bench_cross_entropy(rounds: int) -> float:
    """Speed against torch's loss on whole logits, forward and backward."""
    h = torch.randn(8192, WIDTH, device="cuda", dtype=torch.bfloat16).requires_grad_()
    w = (torch.randn(151936, WIDTH, device="cuda") / WIDTH**0.5).to(torch.bfloat16).requires_grad_()
    targets = torch.randint(0, 151936, (8192,), device="cuda")
    candidates = {
        "ours": lambda: torch.autograd.grad(cross_entropy(h, w, targets).total, (h, w)),
        "torch": lambda: torch.autograd.grad(functional.cross_entropy((h @ w.t()).float(), targets), (h, w)),
    }
    return speedup(interleave(candidates, rounds=rounds), "ours", "torch")


def main() -> None:
    if not torch.cuda.is_available():
        sys.stdout.write(json.dumps({"status": "not run", "reason": "no CUDA device"}) + "\n")
        return
    check()
    figures: dict[str, Any] = {"status": "run", "device": torch.cuda.get_device_name(), "torch": torch.__version__}
    shapes = {"gate_up": (WIDTH, 2 * HIDDEN), "down": (HIDDEN, WIDTH)}
    gemm = {f"{n} {loads}": bench_gemm(*s, loads, 10) for n, s in shapes.items() for loads in ("uniform", "dirichlet")}
    figures["gemm_cells"] = gemm
    figures["gemm_x_torch"] = geometric_mean(cell["x_torch"] for cell in gemm.values())
    figures["gemm_tflops"] = geometric_mean(cell["tflops"] for cell in gemm.values())
    figures["quantise"] = bench_quantisers(20)
    figures["quantise_share"] = min(figures["quantise"].values())
    figures["attention_x_torch"] = bench_attention(5)
    figures["cross_entropy_x_torch"] = bench_cross_entropy(5)
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
