# mypy: disable-error-code="import-untyped,import-not-found,unused-ignore,no-untyped-call"
"""Whether Triton runs in its interpreter, decided when triton was first imported.

The interpreter is silently wrong in two places (triton 3.9): `tl.dot` on bf16 multiplies raw bit patterns, and fp32 to
bf16 truncates. Kernels therefore take an INTERPRET flag: under it operands of `tl.dot` are widened to fp32 and bf16 is
rounded by integer operations. What the flag does not cover: races, tf32, and anything about speed.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def _probe(pointer: tl.tensor) -> None:
    tl.store(pointer, 0)


INTERPRETED: bool = not isinstance(_probe, triton.JITFunction)


def num_programs(tensor_index: int | None) -> int:
    """Programs of a persistent kernel: one a streaming multiprocessor; two in the interpreter, to show that it is."""
    import torch

    return 2 if INTERPRETED else torch.cuda.get_device_properties(tensor_index).multi_processor_count
