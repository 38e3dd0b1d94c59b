"""The dispatcher and the package's promises: light imports, no need of triton, one README and bench an operation."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

from contracts.errors import UserInputError
from kernels.backend import Backend, Operation

ROOT = Path(__file__).parents[2]
OPERATIONS = (
    "cross_entropy", "grouped_gemm", "mxfp8", "newton_schulz", "norm_rope", "nvfp4", "packed_attention", "router"
)  # fmt: skip


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_is_light() -> None:
    heavy = run("import sys, kernels; print([m for m in ('torch', 'triton', 'numpy') if m in sys.modules])")
    assert heavy.strip() == "[]"


def test_everything_but_triton_works_without_triton() -> None:
    """Operations run on the CPU; asking for triton names the extra to install."""
    code = """
import sys
sys.modules["triton"] = None
import torch
from contracts.errors import EnvironmentFault
from kernels import cross_entropy, grouped_gemm, mxfp8, newton_schulz, norm_rope, nvfp4, packed_attention, router
from kernels import quantised_gemm
x, offsets = torch.randn(4, 8), torch.tensor([4], dtype=torch.int32)
grouped_gemm.grouped_gemm(x, torch.randn(1, 8, 3), offsets)
quantised_gemm.quantised_grouped_gemm(x, torch.randn(1, 8, 3), offsets, precision=quantised_gemm.Precision())
mxfp8.quantise(x), nvfp4.quantise(x)
router.route(x, router.RouterSettings(top_k=2))
try:
    mxfp8.quantise(x, backend="triton")
except EnvironmentFault as error:
    print(error)
"""
    assert "pip install '.[kernels]'" in run(code)


def test_triton_refuses_cpu_tensors_when_it_does_not_interpret() -> None:
    pytest.importorskip("triton")
    code = """
import torch
from contracts.errors import UserInputError
from kernels import mxfp8
try:
    mxfp8.quantise(torch.zeros(1, 32), backend="triton")
except UserInputError as error:
    print(error)
"""
    assert "TRITON_INTERPRET" in run(code)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_has_its_parts(name: str) -> None:
    folder = ROOT / "kernels" / name
    assert {"__init__.py", "reference.py", "cpu.py", "triton.py", "bench.py", "README.md"} <= {
        path.name for path in folder.iterdir()
    }
    assert len((folder / "README.md").read_text().splitlines()) <= 60


def test_the_composition_has_its_parts() -> None:
    """The quantised product has no implementation of its own; every part of it runs on the backend asked for."""
    folder = ROOT / "kernels" / "quantised_gemm"
    assert {"__init__.py", "bench.py", "README.md"} <= {path.name for path in folder.iterdir()}


def test_the_named_extra_installs_triton() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(requirement.startswith("triton") for requirement in extras["kernels"])


def test_the_choice_of_a_backend() -> None:
    operation = Operation(
        name="op",
        reference=lambda: "reference",
        cpu=lambda: "cpu",
        triton="kernels.absent:op",
        dtypes={Backend.CPU: (torch.float32,), Backend.TRITON: (torch.float32,)},
    )
    narrow, wide = torch.zeros(1), torch.zeros(1, dtype=torch.float64)
    assert operation.choose(narrow, None)() == "cpu"
    assert operation.choose(wide, None)() == "reference"
    assert operation.choose(narrow, "reference")() == "reference"
    with pytest.raises(UserInputError, match="does not serve float64") as caught:
        operation.choose(wide, Backend.CPU)
    assert "float32" in pickle.loads(pickle.dumps(caught.value)).remedy
    with pytest.raises(ModuleNotFoundError, match=r"kernels\.absent"):
        operation.choose(narrow, "triton")
