"""MXFP8 and NVFP4: bit-exact three ways on all bf16 values times edge blocks. Shows RC2-8.1, RC2-8.2."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch
from torch import Tensor

from contracts.errors import UserInputError
from kernels import mxfp8, nvfp4
from kernels.minifloat import E2M1, E4M3, cpu, reference

ALL_BF16 = (torch.arange(65536, dtype=torch.int32) << 16).view(torch.float32)
# What fills the rest of a block beside the bf16 value under test.
EDGES = {
    "zeros": [0.0],
    "tie steps": [448.0, 1.0625, 17.0, -2.5, 0.75, 0.25, 5.0, -3.5],
    "just above 1.75": [float(np.nextafter(np.float32(1.75), np.float32(2))), 1.0],
    "subnormal": [2.0**-149, -(2.0**-133), 2.0**-127, 2.0**-126],
    "huge": [3.3895314e38, -1.0],
    "tiny beside large": [6.0, 2.0**-20, -(2.0**-7)],
}
FAST = ["cpu", *(["triton"] if importlib.util.find_spec("triton") else [])]


def edge_rows(edge: str, block: int) -> Tensor:
    """Every bf16 value, one a row, at a moving place in a block of edge values."""
    fill = torch.tensor(EDGES[edge]).repeat(block)[:block]
    rows = fill.repeat(len(ALL_BF16), 1)
    places = torch.arange(len(ALL_BF16)) % block
    rows[torch.arange(len(rows)), places] = ALL_BF16
    return rows


def bits(x: Tensor) -> Tensor:
    return x.cpu().view(torch.int32) if x.dtype == torch.float32 else x.cpu()


def where(name: str) -> str:
    return "cuda" if name == "triton" and torch.cuda.is_available() else "cpu"


FLOOR_FAST = ("zeros", "just above 1.75")
FLOOR = [pytest.param("floor", edge, marks=[] if edge in FLOOR_FAST else pytest.mark.slow) for edge in EDGES]


@pytest.mark.parametrize(("mode", "edge"), [*(("rceil", edge) for edge in EDGES), *FLOOR])
def test_mxfp8_is_bit_exact_on_every_bf16_value(mode: mxfp8.Mode, edge: str) -> None:
    rows = edge_rows(edge, mxfp8.BLOCK)
    want = mxfp8.quantise(rows, mode=mode, backend="reference")
    values = mxfp8.dequantise(want, backend="reference")
    for name in FAST:
        got = mxfp8.quantise(rows.to(where(name)), mode=mode, backend=name)
        assert torch.equal(got.codes.cpu(), want.codes), name
        assert torch.equal(got.scales.cpu(), want.scales), name
        torch.testing.assert_close(mxfp8.dequantise(got, backend=name).cpu(), values, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("edge", EDGES)
def test_nvfp4_is_bit_exact_on_every_bf16_value(edge: str) -> None:
    rows = edge_rows(edge, 2 * nvfp4.BLOCK)
    want = nvfp4.quantise(rows, backend="reference")
    values = nvfp4.dequantise(want, backend="reference")
    for name in FAST:
        got = nvfp4.quantise(rows.to(where(name)), backend=name)
        assert torch.equal(got.codes.cpu(), want.codes), name
        assert torch.equal(got.scales.cpu(), want.scales), name
        assert torch.equal(bits(got.row_scales), bits(want.row_scales)), name
        torch.testing.assert_close(nvfp4.dequantise(got, backend=name).cpu(), values, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("shape", [(1, 1), (3, 33), (5, 15), (0, 16), (7, 100)], ids=str)
def test_odd_and_strided_shapes(shape: tuple[int, int], name: str) -> None:
    x = torch.randn(2 * shape[1], 3 * shape[0]).t()[::3, ::2] * 10
    x = x.to(torch.bfloat16).to(where(name))
    for mode in ("rceil", "floor"):
        got, want = mxfp8.quantise(x, mode=mode, backend=name), mxfp8.quantise(x, mode=mode, backend="reference")
        assert torch.equal(got.codes.cpu(), want.codes)
        assert torch.equal(got.scales.cpu(), want.scales)
        assert torch.equal(mxfp8.dequantise(got, backend=name).cpu(), mxfp8.dequantise(want, backend="reference"))
    for scaling in ("token", "tensor"):
        got4 = nvfp4.quantise(x, scaling=scaling, backend=name)
        want4 = nvfp4.quantise(x, scaling=scaling, backend="reference")
        assert torch.equal(got4.codes.cpu(), want4.codes)
        assert torch.equal(got4.scales.cpu(), want4.scales)
        assert torch.equal(bits(got4.row_scales), bits(want4.row_scales))
        values = nvfp4.dequantise(got4, backend=name).cpu()
        assert values.shape == shape
        assert torch.equal(values, nvfp4.dequantise(want4, backend="reference"))


def nearest(value: float, table: np.ndarray) -> float:  # type: ignore[type-arg]
    """The table's nearest value, ties to the even code: the definition, one value at a time."""
    distances = np.abs(table.astype(np.float64) - value)
    best = np.flatnonzero(distances == distances.min())
    return float(table[best[best % 2 == 0][0] if len(best) > 1 else best[0]])


@pytest.mark.parametrize("form", [E4M3, E2M1], ids=["E4M3", "E2M1"])
def test_encoding_is_to_nearest_even_by_definition(form: object) -> None:
    assert form in (E4M3, E2M1)
    chosen = E4M3 if form is E4M3 else E2M1
    table = reference.decode_table(chosen)[: chosen.max_code + 1]
    middles = (table[1:].astype(np.float64) + table[:-1]) / 2
    tested = np.concatenate([table, middles, middles * (1 + 2.0**-20), middles * (1 - 2.0**-20), [1e9, 0.0, 1e-30]])
    values = tested.astype(np.float32)
    got = reference.decode(reference.encode(values, np.zeros((), dtype=np.int64), chosen), chosen)
    assert got.tolist() == [nearest(float(v), table) for v in values]
    mirrored = reference.decode(reference.encode(-values, np.zeros((), dtype=np.int64), chosen), chosen)
    assert mirrored.tolist() == (-got).tolist()


def test_e4m3_agrees_with_torch_on_all_bf16_values() -> None:
    ours = cpu.encode(ALL_BF16, 0, E4M3)
    assert torch.equal(ours, ALL_BF16.to(torch.float8_e4m3fn).view(torch.uint8))


def test_golden_mxfp8_blocks() -> None:
    """OCP MX 1.0: FLOOR saturates above 1.75 * 2^n, RCEIL takes the next power of two."""
    block = torch.zeros(4, 32)
    block[0, :3] = torch.tensor([448.0, -448.0, 0.25])
    block[1, 0] = 500.0
    block[2, 0] = 2.0**-140
    floor, rceil = mxfp8.quantise(block, mode="floor"), mxfp8.quantise(block, mode="rceil")
    assert floor.scales[:, 0].tolist() == [127, 127, 0, 0]
    assert rceil.scales[:, 0].tolist() == [127, 128, 0, 0]
    assert floor.codes[0, :3].tolist() == [0x7E, 0xFE, 0x28]
    assert mxfp8.dequantise(floor)[1, 0] == 448.0
    assert mxfp8.dequantise(rceil)[1, 0] == 512.0
    assert mxfp8.dequantise(rceil)[2, 0] == 0.0
    assert not mxfp8.dequantise(rceil)[3].any()


def test_rceil_is_the_ieee_quotients_ceiling() -> None:
    """The integer rule equals ceil(log2(fl(amax / 448))); multiplying by the rounded 1 / 448 would not."""
    fractions = torch.tensor([0x600000 - 1, 0x600000, 0x600001, 0, 0x7FFFFF], dtype=torch.int32)
    exponents = torch.arange(20, 254, dtype=torch.int32)
    amax = ((exponents[:, None] << 23) | fractions).view(torch.float32).reshape(-1)
    block = torch.zeros(len(amax), 32)
    block[:, 0] = amax
    quotient = (amax / 448.0).double()
    want = torch.ceil(torch.log2(quotient)).clamp(-127, 127).to(torch.int32) + 127
    assert torch.equal(mxfp8.quantise(block).scales[:, 0].to(torch.int32), want)


def test_golden_nvfp4_rows() -> None:
    """Zeros, ties, saturation and the two scales by hand. Shows RC2-8.2."""
    rows = torch.zeros(3, 16)
    rows[1, :8] = torch.tensor([6.0, -6.0, 0.25, 0.75, 1.25, 2.5, 3.5, 5.0])
    rows[2, :2] = torch.tensor([2688.0, 1.0])
    got = nvfp4.quantise(rows)
    assert got.row_scales.tolist() == [1.0, float(np.float32(6.0) / np.float32(2688.0)), 1.0]
    assert got.scales[:, 0].tolist() == [0x08, 0x7E, 0x7E]
    assert got.codes[0].tolist() == [0] * 8
    # 0.25 -> 0, 0.75 -> 1, 1.25 -> 1, 2.5 -> 2, 3.5 -> 4, 5 -> 4: ties to the even code.
    assert got.codes[1].tolist() == [0xF7, 0x20, 0x42, 0x66, 0, 0, 0, 0]
    assert nvfp4.dequantise(got)[2].tolist() == [2688.0] + [0.0] * 15


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_bad_values_are_loud_and_stay_where_they_are(value: float) -> None:
    x = torch.randn(4, 64)
    clean8, clean4 = mxfp8.dequantise(mxfp8.quantise(x)), nvfp4.dequantise(nvfp4.quantise(x))
    x[1, 40] = value
    for name in ("reference", *FAST):
        got8 = mxfp8.dequantise(mxfp8.quantise(x.to(where(name)), backend=name), backend=name).cpu()
        assert got8[1, 32:].isnan().all()
        assert torch.equal(got8[1, :32], clean8[1, :32])
        assert torch.equal(got8[[0, 2, 3]], clean8[[0, 2, 3]])
        got4 = nvfp4.dequantise(nvfp4.quantise(x.to(where(name)), backend=name), backend=name).cpu()
        assert got4[1].isnan().all()
        assert torch.equal(got4[[0, 2, 3]], clean4[[0, 2, 3]])


@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_round_trip_error_by_distribution(spread: float) -> None:
    """Relative error stays near half a step of the element format. Shows RC2-8.2."""
    x = torch.randn(64, 256) * torch.exp(torch.randn(64, 1) * spread / 25)
    for quantised, bound in ((mxfp8.dequantise(mxfp8.quantise(x)), 0.035), (nvfp4.dequantise(nvfp4.quantise(x)), 0.12)):
        assert float((quantised - x).norm() / x.norm()) < bound


def test_impossible_calls_say_what_to_do() -> None:
    with pytest.raises(UserInputError, match="not a matrix"):
        mxfp8.quantise(torch.zeros(2, 3, 4))
    with pytest.raises(UserInputError, match="unknown mode"):
        mxfp8.quantise(torch.zeros(2, 3), mode="even")  # type: ignore[arg-type]
    with pytest.raises(UserInputError, match="does not serve float16"):
        nvfp4.quantise(torch.zeros(2, 3, dtype=torch.float16), backend="cpu")
