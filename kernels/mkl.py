"""Two routines of the MKL inside torch's own library, for products torch has no fast way to.

`cblas_gemm_bf16bf16f32`: a bf16 product summed and returned in fp32. torch reaches bf16 products on CPUs through oneDNN
only, which rounds every result to bf16, builds a primitive for each new shape (1 ms and more) and costs some 30 us a
call. Used on processors with AMX only: elsewhere oneDNN's kernels are the faster ones.
`cblas_sgemm_batch`: fp32 products of different shapes in one call, which threads share among themselves.

Both are looked up in libtorch_cpu; where a build of torch does not export them (other processors, other packagers)
they are not available and callers keep to torch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_ROW_MAJOR, _PLAIN, _TRANSPOSED = 101, 111, 112


def _routine(name: str, kinds: Sequence[type]) -> Callable[..., None] | None:
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    routine = getattr(ctypes.CDLL(str(path)), name, None) if path.exists() else None
    if routine is None:
        return None
    routine.restype, routine.argtypes = None, list(kinds)
    call: Callable[..., None] = routine
    return call


@lru_cache(maxsize=1)
def _bf16_routine() -> Callable[..., None] | None:
    if not torch.cpu._is_amx_tile_supported():
        return None
    number, address, scalar = ctypes.c_int, ctypes.c_void_p, ctypes.c_float
    matrices = (scalar, address, number, address, number, scalar, address, number)
    return _routine("cblas_gemm_bf16bf16f32", (*[number] * 6, *matrices))


@lru_cache(maxsize=1)
def _batch_routine() -> Callable[..., None] | None:
    number, address = ctypes.c_int, ctypes.c_void_p
    return _routine("cblas_sgemm_batch", (number, *[address] * 13, number, address))


def bf16_available() -> bool:
    """Whether `product`, `grouped_rows` and `grouped_weights` can be called in this process."""
    return _bf16_routine() is not None


def batch_available() -> bool:
    """Whether `batched` can be called in this process."""
    return _batch_routine() is not None


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


class Operands(NamedTuple):
    """One operand of each product of a batch: addresses, leading dimension in elements, whether it is transposed."""

    addresses: NDArray[np.uint64]
    lead: int
    transposed: bool = False


Counts = int | NDArray[np.int64]


def batched(a: Operands, b: Operands, out: Operands, *, rows: Counts, cols: Counts, inner: Counts) -> None:
    """out[i] = a[i] @ b[i] in fp32 for products of rows[i] x inner[i] x cols[i], none of them empty."""
    call, number = _batch_routine(), len(out.addresses)
    assert call is not None, "ask batch_available() first"
    operations = (_TRANSPOSED if operand.transposed else _PLAIN for operand in (a, b))
    values = (*operations, rows, cols, inner, a.lead, b.lead, out.lead, 1)
    integers = np.empty((len(values), number), dtype=np.int32)
    for row, value in zip(integers, values, strict=True):
        row[:] = value
    scalars = np.zeros((2, number), dtype=np.float32)
    scalars[0] = 1
    a_ops, b_ops, m, n, k, a_lead, b_lead, out_lead, sizes = range(
        integers.ctypes.data, integers.ctypes.data + integers.nbytes, 4 * number
    )
    alpha, beta = scalars.ctypes.data, scalars.ctypes.data + 4 * number
    a_at, b_at, out_at = (operand.addresses.ctypes.data for operand in (a, b, out))
    call(
        _ROW_MAJOR, a_ops, b_ops, m, n, k, alpha, a_at, a_lead, b_at, b_lead, beta, out_at, out_lead, number, sizes
    )  # fmt: skip


def operands(
    tensor: Tensor, starts: NDArray[np.int64], stride: int, lead: int, *, transposed: bool = False
) -> Operands:
    """Operands at elements starts * stride of an fp32 tensor."""
    places = starts.astype(np.uint64) * np.uint64(4 * stride)
    return Operands(places + np.uint64(tensor.data_ptr()), lead, transposed)


def is_transposed(matrix: Tensor) -> bool:
    """Whether a matrix with dense rows or dense columns is the transpose of a row-major one."""
    return _operation(matrix)[0] == _TRANSPOSED


def _required() -> Callable[..., None]:
    routine = _bf16_routine()
    assert routine is not None, "ask bf16_available() first"
    return routine


def _operation(matrix: Tensor) -> tuple[int, int]:
    """MKL's code for plain or transposed, and the leading dimension."""
    (rows, cols), (row_stride, col_stride) = matrix.shape, matrix.stride()
    if col_stride == 1 or cols == 1:
        return _PLAIN, max(row_stride if rows > 1 else cols, cols)
    return _TRANSPOSED, max(col_stride, rows)
