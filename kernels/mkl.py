"""One routine of the MKL inside torch's own library: a bf16 product summed and returned in fp32.

torch reaches bf16 products on CPUs through oneDNN only, which rounds every result to bf16, builds a primitive for each
new shape (about 1 ms) and costs some 30 us a call. `cblas_gemm_bf16bf16f32` has none of that. It is looked up in
libtorch_cpu; where a build of torch does not export it (other processors, other packagers) `available()` is False
and callers keep to torch. Used on processors with AMX only: elsewhere oneDNN's kernels are the faster ones.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

_ROW_MAJOR, _PLAIN, _TRANSPOSED = 101, 111, 112


@lru_cache(maxsize=1)
def _routine() -> Callable[..., None] | None:
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if not library.exists() or not torch.cpu._is_amx_tile_supported():
        return None
    routine = getattr(ctypes.CDLL(str(library)), "cblas_gemm_bf16bf16f32", None)
    if routine is None:
        return None
    number, address, scalar = ctypes.c_int, ctypes.c_void_p, ctypes.c_float
    routine.restype = None
    routine.argtypes = [number] * 6 + [scalar, address, number, address, number, scalar, address, number]
    call: Callable[..., None] = routine
    return call


def available() -> bool:
    """Whether `product` can be called in this process."""
    return _routine() is not None


def product(a_MK: Tensor, b_KN: Tensor, out_MN: Tensor, *, add: bool = False) -> None:
    """out = a @ b (or += with `add`), bf16 operands, fp32 `out` with contiguous rows.

    Operands are matrices with contiguous rows or the transposes of such; nothing is checked here.
    """
    rows, inner = a_MK.shape
    cols = b_KN.shape[1]
    if not rows or not cols:
        return
    if not inner:
        if not add:
            out_MN.zero_()
        return
    a_op, a_lead = _operand(a_MK)
    b_op, b_lead = _operand(b_KN)
    routine = _routine()
    assert routine is not None
    a, b, out = a_MK.data_ptr(), b_KN.data_ptr(), out_MN.data_ptr()
    beta = 1.0 if add else 0.0
    routine(_ROW_MAJOR, a_op, b_op, rows, cols, inner, 1.0, a, a_lead, b, b_lead, beta, out, out_MN.stride(0))


def _operand(matrix: Tensor) -> tuple[int, int]:
    (rows, cols), (row_stride, col_stride) = matrix.shape, matrix.stride()
    if col_stride == 1 or cols == 1:
        return _PLAIN, max(row_stride if rows > 1 else cols, cols)
    return _TRANSPOSED, max(col_stride, rows)
