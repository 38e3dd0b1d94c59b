"""The safetensors file format: an 8-byte little-endian header length, a JSON header, and the raw tensors."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from contracts.errors import UserInputError

_DTYPES: Mapping[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
_LONGEST_HEADER = 100_000_000  # bytes, the limit of the format's own readers


class _Entry(BaseModel):
    """What the header says of a tensor. Offsets count from the end of the header."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dtype: Literal["F64", "F32", "F16", "BF16"]
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write float32 tensors, in the order given."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, tensor in tensors.items():
        end = start + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [start, end]}
        start = end
    described = json.dumps(header, separators=(",", ":")).encode()
    described += b" " * (-len(described) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(described)) + described)
        for tensor in tensors.values():
            file.write(tensor.detach().float().contiguous().numpy().tobytes())


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors as float32. Raises UserInputError for a file that is cut off or no safetensors file of floats."""
    content = path.read_bytes()
    try:
        (length,) = struct.unpack("<Q", content[:8])
        if length > _LONGEST_HEADER:
            raise ValueError("the header is too long")
        header = json.loads(content[8 : 8 + length])
        return {n: _tensor(entry, content, 8 + length) for n, entry in header.items() if n != "__metadata__"}
    except (struct.error, ValueError, AttributeError, RuntimeError) as error:
        raise UserInputError(
            f"{path} is no readable safetensors file: {error}", remedy="export or download it again"
        ) from error


def _tensor(entry: object, content: bytes, data: int) -> Tensor:
    described = _Entry.model_validate(entry)
    start, end = described.data_offsets
    raw = bytearray(content[data + start : data + end])
    if len(raw) != end - start:
        raise ValueError("the file is cut off")
    if not raw:
        return torch.zeros(described.shape)
    return torch.frombuffer(raw, dtype=_DTYPES[described.dtype]).view(described.shape).float()
