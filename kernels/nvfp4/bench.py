"""Throughput of the NVFP4 quantiser, and the report's studies of scaling and of division (RC2-8.3, RC2-8.5)."""

from __future__ import annotations

import statistics
import sys

import torch

from kernels.measure import interleave
from kernels.nvfp4 import Scaling, quantise
from kernels.nvfp4.study import division_study, scaling_study


def measure(scaling: Scaling, *, rounds: int, rows: int = 2048, width: int = 1024) -> float:
    """Gigabytes a second for bf16 input: two bytes in, a half and a sixteenth out."""
    x = torch.randn(rows, width).to(torch.bfloat16)
    seconds = statistics.median(interleave({"ours": lambda: quantise(x, scaling=scaling)}, rounds=rounds)["ours"])
    return x.numel() * (2.5 + 1 / 16) / seconds / 1e9


def main() -> None:
    torch.set_num_threads(1)
    for scaling in ("token", "tensor"):
        study = scaling_study(scaling, seed=1)
        line = f"per {scaling}: {measure(scaling, rounds=5):.2f} GB/s, leaked {study.leaked:.2%}"
        sys.stdout.write(f"{line}, differs between batches {study.batch_gap:.2%}\n")
    sys.stdout.write(f"approximate division flips {division_study(seed=1)}\n")


if __name__ == "__main__":
    main()
