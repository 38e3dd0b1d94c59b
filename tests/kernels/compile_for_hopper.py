"""Compile every Triton kernel for sm_90, as run by test_compiles.py in a process of its own. Needs no GPU.

Prints one line a kernel: bytes of shared memory, registers a thread, and bytes of stack (spilled registers).
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

CUOBJDUMP = str(Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump")
FORM = {"MANTISSA": 3, "BIAS": 7, "SIGN": 7, "MAX": 0x7E, "NAN": 0x7F}
FLAGS = {"INTERPRET": False}
BIG = {"num_warps": 8, "num_stages": 3}
INTEGERS = ("offsets_ptr", "tiles_ptr", "loads_ptr")
LONGS = ("gather_ptr", "scatter_ptr", "experts_ptr", "targets_ptr")
FLOATS = (
    "scale_ptr", "lse_ptr", "delta_ptr", "dweight_ptr", "cos_ptr", "sin_ptr", "row_scales_ptr", "amax_ptr", "gates_ptr",
    "bias_ptr", "means_ptr", "squares_ptr", "dgates_ptr", "dmean_ptr", "dsquare_ptr", "losses_ptr", "count_ptr",
)  # fmt: skip
BYTES = ("codes_ptr", "scales_ptr", "valid_ptr")
SCALARS = ("scale", "floor", "epsilon", "alpha", "beta", "full_range", "largest", "min_row_scale", "z_coefficient")

GEMM = {"x_col": 1, "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, **FLAGS}
ROWS = {"GATHER": False, "SCATTER": False, "SCALE": False, "SWIGLU": False}
ROUTER = {"VALID": True, "SIGMOID": True, "RENORMALISE": True, "TOP_K": 8, "BLOCK_N": 8, "BLOCK_E": 128}
MX = {"NAN_SCALE": 255, "BLOCK": 32, "TILE_R": 4, "TILE_B": 8}
ATTENTION = {"BLOCK_Q": 64, "BLOCK_K": 64, "SIZE": 128, "VALUE": 128, **FLAGS}
FEW = {"num_warps": 8, "num_stages": 2}
NORM = {"BLOCK_R": 32, "HALF": 64, **FLAGS}

Row = tuple[str, str, dict[str, Any], dict[str, int], tuple[str, ...]]
# Module, kernel, constants, compile options, names that are float32 pointers here.
KERNELS: list[Row] = [
    ("grouped_gemm", "rows_kernel", {**GEMM, **ROWS, "w_outer": 1, "SCATTER": True, "SCALE": True}, BIG, ()),
    (
        "grouped_gemm",
        "rows_kernel",
        {**GEMM, **ROWS, "w_outer": 1, "GATHER": True, "SWIGLU": True, "BLOCK_N": 128},
        BIG,
        (),
    ),
    ("grouped_gemm", "rows_kernel", {**GEMM, **ROWS, "w_inner": 1}, BIG, ()),
    ("grouped_gemm", "weights_kernel", {**GEMM, "GATHER_X": True, "GATHER_DY": False}, BIG, ()),
    ("router", "forward_kernel", {**ROUTER, "BIAS": True}, {}, ("logits_ptr",)),
    ("router", "backward_kernel", ROUTER, {}, ("logits_ptr", "dlogits_ptr")),
    ("mxfp8", "quantise_kernel", {**MX, **FORM, "x_col": 1, "RCEIL": True, "EMAX": 8, "EDGE": 0x600000}, {}, ()),
    ("mxfp8", "dequantise_kernel", {**MX, **FORM}, {}, ("out_ptr",)),
    (
        "nvfp4",
        "quantise_kernel",
        {"x_col": 1, "GIVEN_AMAX": False, "MIN_SCALE_CODE": 8, "TILE_R": 4, "TILE_B": 32},
        {},
        (),
    ),
    ("nvfp4", "dequantise_kernel", {"TILE_R": 4, "TILE_B": 32}, {}, ("out_ptr",)),
    ("packed_attention", "forward_kernel", ATTENTION, FEW, ()),
    ("packed_attention", "query_kernel", ATTENTION, FEW, ()),
    ("packed_attention", "key_kernel", ATTENTION, FEW, ()),
    ("newton_schulz", "product_kernel", {**GEMM, "a_col": 1, "b_col": 1, "ADD": True, "BLOCK_N": 64}, BIG, ()),
    ("norm_rope", "forward_kernel", NORM, {}, ()),
    ("norm_rope", "backward_kernel", NORM, {}, ()),
    ("cross_entropy", "loss_kernel", {"GRADIENT": True, "IGNORE": -100, "BLOCK": 4096}, {}, ("logits_ptr",)),
]


def type_of(name: str, floats: tuple[str, ...]) -> str:
    groups = {"*i32": INTEGERS, "*i64": LONGS, "*fp32": (*FLOATS, *floats), "*u8": BYTES, "fp32": SCALARS}
    for kind, names in groups.items():
        if name in names:
            return kind
    return "*bf16" if name.endswith("_ptr") else "i32"


def compile_one(row: Row) -> str:
    module, name, given, options, floats = row
    kernel = getattr(importlib.import_module(f"kernels.{module}.triton"), name)
    names = kernel.arg_names
    constants = {n: value for n, value in given.items() if n in names}
    signature = {n: "constexpr" if n in constants else type_of(n, floats) for n in names}
    # As at run time: pointers and strides that are multiples of 16 are known to be.
    aligned = [n for n in names if n.endswith("_ptr") or n in ("inner", "outer", "size", "value_size", "half", "width")]
    aligned += [n for n in names if n.startswith(("x_row", "w_", "y_row", "dy_row", "aux_row", "a_", "b_"))]
    attributes = {(names.index(n),): [["tt.divisibility", 16]] for n in aligned if n not in constants}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(compiled.asm["cubin"])
        cubin.flush()
        usage = subprocess.run(
            [CUOBJDUMP, "--dump-resource-usage", cubin.name], capture_output=True, text=True, check=True
        )
    stack = re.search(r"STACK:(\d+)", usage.stdout)
    registers = re.search(r"REG:(\d+)", usage.stdout)
    assert stack is not None
    assert registers is not None
    return f"{module}.{name} shared={compiled.metadata.shared} registers={registers[1]} stack={stack[1]}"


def main() -> None:
    for row in KERNELS:
        sys.stdout.write(compile_one(row) + "\n")


if __name__ == "__main__":
    main()
