"""One routine of the MKL inside torch's own library: a bf16 product summed and returned in fp32.

torch reaches bf16 products on CPUs through oneDNN only, which rounds every result to bf16, builds a primitive for each
new shape (1 ms and more) and costs some 30 us a call. `cblas_gemm_bf16bf16f32` has none of that. It is looked up in
libtorch_cpu; where a build of torch does not export it (other processors, other packagers) `available()` is False and
callers keep to torch. Used on processors with AMX only: elsewhere oneDNN's kernels are the faster ones.

(`cblas_sgemm_batch` is there too; on ragged fp32 groups it was 5 to 10 % slower than torch's loop.)
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

_ROW_MAJOR, _PLAIN, _TRANSPOSED = 101, 111, 112


@lru_cache(maxsize=1)
def _routine() -> Callable[..., None] | None:
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if not path.exists() or not torch.cpu._is_amx_tile_supported():
        return None
    routine = getattr(ctypes.CDLL(str(path)), "cblas_gemm_bf16bf16f32", None)
    if routine is None:
        return None
    number, address, scalar = ctypes.c_int, ctypes.c_void_p, ctypes.c_float
    routine.restype = None
    routine.argtypes = [number] * 6 + [scalar, address, number, address, number, scalar, address, number]
    call: Callable[..., None] = routine
    return call


def available() -> bool:
    """Whether the functions below can be called in this process."""
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
    (a_op, a_lead), (b_op, b_lead) = _operation(a_MK), _operation(b_KN)
    a, b, out = a_MK.data_ptr(), b_KN.data_ptr(), out_MN.data_ptr()
    beta = 1.0 if add else 0.0
    _required()(_ROW_MAJOR, a_op, b_op, rows, cols, inner, 1.0, a, a_lead, b, b_lead, beta, out, out_MN.stride(0))


class Span(NamedTuple):
    """Rows [start, stop) of one group."""

    group: int
    start: int
    stop: int


def grouped_rows(x_TK: Tensor, w_EKN: Tensor, spans: Iterable[Span], out_SN: Tensor, origin: int) -> None:
    """out[rows - origin] = x[rows] @ w[group] for each span of non-empty rows; x and out contiguous."""
    call, (inner, outer) = _required(), w_EKN.shape[1:]
    w_op, w_lead = _operation(w_EKN[0])
    x, w, out, w_bytes = x_TK.data_ptr(), w_EKN.data_ptr(), out_SN.data_ptr(), 2 * w_EKN.stride(0)
    for group, start, stop in spans:
        a, b, c = x + 2 * start * inner, w + group * w_bytes, out + 4 * (start - origin) * outer
        call(_ROW_MAJOR, _PLAIN, w_op, stop - start, outer, inner, 1.0, a, inner, b, w_lead, 0.0, c, outer)


def grouped_weights(x_TK: Tensor, dy_TN: Tensor, spans: Iterable[Span], out_GKN: Tensor) -> None:
    """out[i] = x[rows].T @ dy[rows] for the i-th span of non-empty rows; all contiguous."""
    call, inner, outer = _required(), x_TK.shape[1], dy_TN.shape[1]
    x, dy, out = x_TK.data_ptr(), dy_TN.data_ptr(), out_GKN.data_ptr()
    for index, (_, start, stop) in enumerate(spans):
        a, b, c = x + 2 * start * inner, dy + 2 * start * outer, out + 4 * index * inner * outer
        call(_ROW_MAJOR, _TRANSPOSED, _PLAIN, inner, outer, stop - start, 1.0, a, inner, b, outer, 0.0, c, outer)


def _required() -> Callable[..., None]:
    routine = _routine()
    assert routine is not None, "ask available() first"
    return routine


def _operation(matrix: Tensor) -> tuple[int, int]:
    """MKL's code for plain or transposed, and the leading dimension."""
    (rows, cols), (row_stride, col_stride) = matrix.shape, matrix.stride()
    if col_stride == 1 or cols == 1:
        return _PLAIN, max(row_stride if rows > 1 else cols, cols)
    return _TRANSPOSED, max(col_stride, rows)
