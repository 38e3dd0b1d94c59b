"""Checkpoints: folders that appear whole, carry their own hash and give back the exact bits.

step-000120/tensors.bin   all tensors one after another
step-000120/state.json    everything else, with the table and hash of tensors.bin
step-000120/sha256        hash of state.json: equal states have equal hashes, whichever run wrote them
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from contracts.errors import DiskFull, NotFound, UserInputError
from trainer.loader import LoaderState
from trainer.mixture_events import NO_WINDOW, Window
from trainer.optim import ParameterState
from trainer.order import MixtureEvent
from trainer.training import TrainingState


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A checkpoint that is complete on disk."""

    path: Path
    sha256: str
    size_bytes: int


def save_checkpoint(state: TrainingState, folder: Path) -> Saved:
    """Write `state` to `folder`, which appears only when it is complete. Raises DiskFull.

    A folder that already holds the same state is left alone; one that holds another state is replaced.
    """
    tensors = dict(_tensors(state))
    content = b"".join(tensor.contiguous().numpy().tobytes() for tensor in tensors.values())
    described = json.dumps(_described(state, tensors, content), sort_keys=True).encode()
    digest = hashlib.sha256(described).hexdigest()
    saved = Saved(path=folder, sha256=digest, size_bytes=len(content) + len(described) + len(digest))
    if _claimed_hash(folder) == digest and _fault(folder) is None:
        return saved
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        for name, data in (("tensors.bin", content), ("state.json", described), ("sha256", digest.encode())):
            _write(partial / name, data)
        _replace(folder, partial)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise disk_full(error, folder) from error
    return saved


def load_checkpoint(folder: Path) -> TrainingState:
    """Raises NotFound when there is none, and UserInputError naming the last good one when it is damaged."""
    if not folder.is_dir():
        raise NotFound(f"there is no checkpoint {folder}", remedy=_other_checkpoint(folder))
    if fault := _fault(folder):
        raise UserInputError(f"checkpoint {folder} is damaged: {fault}", remedy=_other_checkpoint(folder))
    described = json.loads((folder / "state.json").read_bytes())
    content = bytearray((folder / "tensors.bin").read_bytes())
    tensors = {}
    start = 0
    for name, dtype, shape in described["tensors"]:
        count = int(np.prod(shape, dtype=np.int64))
        values = np.frombuffer(content, dtype=dtype, count=count, offset=start).reshape(shape)
        tensors[name] = torch.from_numpy(values)
        start += values.nbytes
    return _state(described, tensors)


def is_sound(folder: Path) -> bool:
    """True when the checkpoint exists and equals its hash."""
    return folder.is_dir() and _fault(folder) is None


def disk_full(error: OSError, path: Path) -> OSError | DiskFull:
    """`error` itself, or DiskFull when that is what it says."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return error
    return DiskFull(
        f"no space left for {path}",
        remedy="free some space and start the same command again; it goes on from the last checkpoint",
    )


def _tensors(state: TrainingState) -> Iterator[tuple[str, Tensor]]:
    for name in sorted(state.weights):
        yield f"weights/{name}", state.weights[name]
    for name, parameter in sorted(state.optimizer.items()):
        for key, tensor in sorted(parameter.tensors.items()):
            yield f"optimizer/{name}/{key}", tensor
    yield "seen", torch.from_numpy(np.packbits(state.loader.seen))


def _described(state: TrainingState, tensors: Mapping[str, Tensor], content: bytes) -> dict[str, Any]:
    return {
        "format": 1,
        "step": state.step,
        "tensors": [[n, str(t.dtype).removeprefix("torch."), list(t.shape)] for n, t in tensors.items()],
        "tensors_sha256": hashlib.sha256(content).hexdigest(),
        "optimizer": {name: [p.optimizer, p.age] for name, p in state.optimizer.items()},
        "consumed": state.loader.consumed,
        "events": [asdict(event) for event in state.loader.events],
        "sample_space": state.loader.sample_space,
        "num_samples": len(state.loader.seen),
        **({"window": asdict(state.loader.window)} if state.loader.window.rows else {}),
    }


def _state(described: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> TrainingState:
    optimizer = {}
    for name, (kind, age) in described["optimizer"].items():
        prefix = f"optimizer/{name}/"
        parts = {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}
        optimizer[name] = ParameterState(optimizer=kind, age=age, tensors=parts)
    events = (MixtureEvent(start=e["start"], seed=e["seed"], weights=tuple(e["weights"])) for e in described["events"])
    loader = LoaderState(
        consumed=described["consumed"],
        events=tuple(events),
        sample_space=described["sample_space"],
        seen=np.unpackbits(tensors["seen"].numpy(), count=described["num_samples"]).astype(np.bool_),
        window=Window(**described["window"]) if "window" in described else NO_WINDOW,
    )
    weights = {key.removeprefix("weights/"): t for key, t in tensors.items() if key.startswith("weights/")}
    return TrainingState(step=described["step"], weights=weights, optimizer=optimizer, loader=loader)


def _claimed_hash(folder: Path) -> str:
    path = folder / "sha256"
    return path.read_text() if path.is_file() else ""


def _fault(folder: Path) -> str | None:
    """What is wrong with the files of a checkpoint, or None."""
    for name in ("sha256", "state.json", "tensors.bin"):
        if not (folder / name).is_file():
            return f"{name} is missing"
    described = (folder / "state.json").read_bytes()
    if hashlib.sha256(described).hexdigest() != _claimed_hash(folder):
        return "state.json differs from the hash in sha256"
    with (folder / "tensors.bin").open("rb") as file:
        content_hash = hashlib.file_digest(file, "sha256").hexdigest()
    return None if content_hash == json.loads(described)["tensors_sha256"] else "tensors.bin differs from its hash"


def _other_checkpoint(folder: Path) -> str:
    good = sorted(path for path in folder.parent.glob("step-*") if path != folder and is_sound(path))
    earlier = [path for path in good if path.name < folder.name]
    if not good:
        return f"there is no other good checkpoint in {folder.parent}; start from random weights"
    return f"the last good one is {(earlier or good)[-1]}"


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _replace(folder: Path, partial: Path) -> None:
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    partial.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    descriptor = os.open(folder.parent, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
