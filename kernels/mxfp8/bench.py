"""Throughput of the MXFP8 quantiser, in bytes read and written a second. No peer: torch has no CPU path."""

from __future__ import annotations

import statistics
import sys

import torch

from kernels.measure import interleave
from kernels.mxfp8 import quantise


def measure(*, rounds: int, rows: int = 2048, width: int = 1024) -> float:
    """Gigabytes a second for bf16 input: two bytes in, one and a thirty-second out."""
    x = torch.randn(rows, width).to(torch.bfloat16)
    seconds = statistics.median(interleave({"ours": lambda: quantise(x)}, rounds=rounds)["ours"])
    return x.numel() * (3 + 1 / 32) / seconds / 1e9


def main() -> None:
    torch.set_num_threads(1)
    sys.stdout.write(f"{measure(rounds=5):.2f} GB/s\n")


if __name__ == "__main__":
    main()
