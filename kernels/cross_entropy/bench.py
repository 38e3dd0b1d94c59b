"""Chunked cross entropy against torch's, forward and backward: time in turns, peak memory in processes of their own."""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from kernels.cross_entropy import cross_entropy
from kernels.measure import interleave, require_close, speedup

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TOKENS, WIDTH, VOCABULARY = 4096, 256, 8192


@dataclass(frozen=True, kw_only=True)
class Ratios:
    """speed: torch seconds / our seconds; memory: our peak beyond the inputs / torch's peak"""

    speed: float
    memory: float


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    hidden = torch.randn(TOKENS, WIDTH).to(dtype).requires_grad_()
    weight = (torch.randn(VOCABULARY, WIDTH) / WIDTH**0.5).to(dtype).requires_grad_()
    return hidden, weight, torch.randint(0, VOCABULARY, (TOKENS,))


def step(name: str, hidden: Tensor, weight: Tensor, targets: Tensor) -> list[Tensor]:
    """Loss and both gradients by "ours" or "torch"."""
    if name == "ours":
        loss = cross_entropy(hidden, weight, targets).total
    else:
        loss = functional.cross_entropy((hidden @ weight.t()).float(), targets)
    return [loss.detach(), *torch.autograd.grad(loss, (hidden, weight))]


def measure(dtype_name: str, *, rounds: int) -> Ratios:
    tensors = inputs(DTYPES[dtype_name])
    relative = 1e-4 if dtype_name == "float32" else 2e-2
    require_close(step("ours", *tensors), step("torch", *tensors), relative=relative)
    times = interleave({name: partial(step, name, *tensors) for name in ("ours", "torch")}, rounds=rounds)
    peaks = {name: _peak_in_a_process(name, dtype_name) for name in ("ours", "torch")}
    return Ratios(speed=speedup(times, "ours", "torch"), memory=peaks["ours"] / peaks["torch"])


def _peak_in_a_process(name: str, dtype_name: str) -> int:
    command = [sys.executable, "-m", "kernels.cross_entropy.bench", "--peak", name, "--dtype", dtype_name]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    return int(done.stdout.split()[-1])


def peak_bytes(name: str, dtype_name: str) -> int:
    """Growth of the resident set's peak by one step, in this process (Linux)."""
    torch.set_num_threads(1)
    tensors = inputs(DTYPES[dtype_name])
    small = (tensors[0][:64].detach().requires_grad_(), tensors[1], tensors[2][:64])
    step(name, *small)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    step(name, *tensors)
    return _status("VmHWM") - before


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peak", choices=["ours", "torch"], help="print the peak of one step in bytes")
    parser.add_argument("--dtype", choices=list(DTYPES), default="float32")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.peak:
        sys.stdout.write(f"{peak_bytes(options.peak, options.dtype)}\n")
    else:
        sys.stdout.write(f"{measure(options.dtype, rounds=5)}\n")


if __name__ == "__main__":
    main()
