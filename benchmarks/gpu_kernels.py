"""The Triton kernels on an NVIDIA GPU (written for one H200), one JSON object as the last line.

Correctness first (against the references on small shapes), then medians of interleaved rounds timed by CUDA events; the
GPU is kept busy before each of them, so that what is timed was already enqueued and no launch is waited for.

    gemm_x_torch      speed against torch._grouped_mm, forward and backward, Qwen3-30B's experts: 128 experts, top-8,
                      2048 x 768 (gate and up: 2048 x 1536), 32K tokens, loads uniform and Dirichlet 0.5
    gemm_tflops       our forward, bf16
    quantise_share    bytes read and written a second / the memory bandwidth of an H200, the slower of the two formats;
                      each byte is counted once, also where a kernel reads it twice

Without a GPU it prints {"status": "not run"}. An H200 has no MXFP8 or NVFP4 tensor cores: nothing is claimed for them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kernels import measure, mxfp8, nvfp4
from kernels.cross_entropy import cross_entropy
from kernels.grouped_gemm import bench as grouped_gemm
from kernels.grouped_gemm import expert_mlp, sort_by_expert
from kernels.grouped_gemm import grouped_gemm as product
from kernels.measure import geometric_mean, require_close, speedup
from kernels.packed_attention import packed_attention

EXPERTS, CHOICES, WIDTH, HIDDEN, TOKENS = 128, 8, 2048, 768, 32768
BANDWIDTH_BYTES_S = 4.8e12
"""Of an H200, by its data sheet."""
GOALS = {"gemm_x_torch": 1.10, "gemm_tflops": 550.0, "quantise_share": 0.70}
BUSY_CYCLES = 2_000_000
"""About a millisecond of waiting on the GPU, while the CPU enqueues what is timed."""


def gpu_seconds(run: Callable[[], object]) -> float:
    """What a call took on the GPU."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    torch.cuda._sleep(BUSY_CYCLES)  # type: ignore[no-untyped-call]
    begin.record()
    run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


interleave = partial(measure.interleave, warmup=3, seconds=gpu_seconds)


def check() -> None:
    """Every operation that is timed below, against its reference on a small shape."""
    torch.manual_seed(0)
    check_products()
    x = random(300, 64)
    for mode in ("rceil", "floor"):
        mine, theirs = mxfp8.quantise(x, mode=mode), mxfp8.quantise(x, mode=mode, backend="reference")
        require_same([mine.codes, mine.scales], [theirs.codes, theirs.scales])
    four, expected = nvfp4.quantise(x), nvfp4.quantise(x, backend="reference")
    require_same([four.codes, four.scales, four.row_scales], [expected.codes, expected.scales, expected.row_scales])
    ends = torch.tensor([70, 71, 180], dtype=torch.int32, device="cuda")
    heads = [random(200, 4, 64) for _ in range(3)]
    attended = [
        gradients(lambda q, k, v, b=b: packed_attention(q, k, v, ends, backend=b), heads) for b in (None, "reference")
    ]
    require_close(attended[0], attended[1], relative=3e-2)
    hidden, weight, targets = random(300, 64), random(1000, 64), torch.randint(0, 1000, (300,), device="cuda")
    losses = [
        gradients(lambda h, w, b=b: cross_entropy(h, w, targets, z_coefficient=1e-3, backend=b).total, [hidden, weight])
        for b in (None, "reference")
    ]
    require_close(losses[0], losses[1], relative=2e-2)


def check_products() -> None:
    x, w = random(300, 64), random(5, 64, 48)
    offsets = torch.tensor([17, 17, 150, 151, 290], dtype=torch.int32, device="cuda")
    both = [gradients(lambda a, c, b=b: product(a, c, offsets, backend=b), [x, w]) for b in (None, "reference")]
    require_close(both[0], both[1], relative=2e-2)
    permutation = sort_by_expert(torch.rand(300, 5, device="cuda").topk(2, dim=1).indices, 5)
    leaves = [x, torch.rand(300, 2, device="cuda"), w, random(5, 24, 64)]
    both = [
        gradients(lambda a, g, u, d, b=b: expert_mlp(a, g, u, d, permutation, backend=b), leaves)
        for b in (None, "reference")
    ]
    require_close(both[0], both[1], relative=3e-2)


def random(*shape: int) -> Tensor:
    return torch.randn(shape, device="cuda").to(torch.bfloat16)


def gradients(run: Callable[..., Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
    """The result and the gradients of its sum of squares."""
    leaves = [t.detach().requires_grad_() for t in tensors]
    y = run(*leaves)
    return [y.detach(), *torch.autograd.grad(y.float().square().sum(), leaves)]


def require_same(got: Sequence[Tensor], want: Sequence[Tensor]) -> None:
    """Raise AssertionError unless each pair has the same bits."""
    for a, b in zip(got, want, strict=True):
        if not torch.equal(a.cpu(), b.cpu()):
            raise AssertionError("a quantiser's bits differ from the reference's")


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
    rows = len(x)
    moved = {"mxfp8": x.numel() * (2 + 1 + 1 / 32), "nvfp4": x.numel() * (2 + 1 / 2 + 1 / 16) + 4 * rows}
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

    def ours() -> tuple[Tensor, ...]:
        return torch.autograd.grad(packed_attention(q, k, v, ends), (q, k, v), dy)

    require_close(ours(), peer(), relative=3e-2)
    return speedup(interleave({"ours": ours, "torch": peer}, rounds=rounds), "ours", "torch")


def bench_cross_entropy(rounds: int) -> float:
    """Speed against torch's loss on whole logits, forward and backward."""
    h = torch.randn(8192, WIDTH, device="cuda", dtype=torch.bfloat16).requires_grad_()
    w = (torch.randn(151936, WIDTH, device="cuda") / WIDTH**0.5).to(torch.bfloat16).requires_grad_()
    targets = torch.randint(0, 151936, (8192,), device="cuda")
    candidates: dict[str, Callable[[], tuple[Tensor, ...]]] = {
        "ours": lambda: torch.autograd.grad(cross_entropy(h, w, targets).total, (h, w)),
        "torch": lambda: torch.autograd.grad(functional.cross_entropy((h @ w.t()).float(), targets), (h, w)),
    }
    require_close(candidates["ours"](), candidates["torch"](), relative=2e-2)
    return speedup(interleave(candidates, rounds=rounds), "ours", "torch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object (the only output there is)")
    parser.parse_args()
    if not torch.cuda.is_available():
        sys.stdout.write(json.dumps({"status": "not run", "reason": "no CUDA device"}) + "\n")
        return
    check()
    figures: dict[str, Any] = {"status": "run", "device": torch.cuda.get_device_name(), "torch": torch.__version__}
    shapes = {"gate_up": (WIDTH, 2 * HIDDEN), "down": (HIDDEN, WIDTH)}
    gemm = {f"{n} {loads}": bench_gemm(*s, loads, 12) for n, s in shapes.items() for loads in ("uniform", "dirichlet")}
    figures["gemm_cells"] = gemm
    figures["gemm_x_torch"] = geometric_mean(cell["x_torch"] for cell in gemm.values())
    figures["gemm_worst"] = min(cell["x_torch"] for cell in gemm.values())
    figures["gemm_tflops"] = geometric_mean(cell["tflops"] for cell in gemm.values())
    figures["quantise"] = bench_quantisers(20)
    figures["quantise_share"] = min(figures["quantise"].values())
    figures["attention_x_torch"] = bench_attention(6)
    figures["cross_entropy_x_torch"] = bench_cross_entropy(6)
    figures["goals_met"] = {name: figures[name] >= goal for name, goal in GOALS.items()}
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
