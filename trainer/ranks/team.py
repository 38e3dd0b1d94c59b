"""The processes of one training: the first starts the others, which do each step with it until it says `end`.

Over several machines a launcher starts them all, each as `python -m trainer.child LAUNCH.json PLACE HOST:PORT` with the
address of the first: `torchrun --no-python sh -c 'python -m trainer.child LAUNCH.json $RANK $MASTER_ADDR:29600'`.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from contracts.errors import EnvironmentFault
from trainer.config import TrainConfig
from trainer.ranks.alone import Ranks

if TYPE_CHECKING:
    from trainer.ranks.processes import ProcessRanks

_TIMEOUT = timedelta(minutes=10)
_END = "end"


@contextlib.contextmanager
def team_of(config: TrainConfig, launch_path: str | None, address: str | None) -> Iterator[Ranks]:
    """The processes that the config asks for, as the first of them.

    They are started here with the file of the launch, or join by themselves at `address`.
    Raises EnvironmentFault when one of them dies.
    """
    size = config.parallel.dp_size * config.parallel.cp_size
    if not config.parallel.processes or size == 1 or launch_path is None:
        yield Ranks()
        return
    host, port = _parts(address or "127.0.0.1:0")
    store = TCPStore(host, port, size, is_master=True, wait_for_workers=False, timeout=_TIMEOUT)
    command = [sys.executable, "-m", "trainer.child", launch_path]
    started = [] if address else range(1, size)
    others = [subprocess.Popen([*command, str(place), f"127.0.0.1:{store.port}"]) for place in started]
    try:
        with _joined(config, store, 0) as ranks:
            yield ranks
            ranks.announce(_END)
        for process in others:
            process.wait()
    except RuntimeError as error:
        dead = [place for place, process in enumerate(others, 1) if process.poll() is not None]
        if not dead:
            raise
        raise EnvironmentFault(
            f"process {dead[0]} of {size} of this training is gone: {str(error).splitlines()[0]}",
            remedy="start the run again; it goes on from its last checkpoint",
        ) from error
    finally:
        _stop(others)


@contextlib.contextmanager
def member(config: TrainConfig, place: int, address: str) -> Iterator[tuple[Ranks, Iterator[str]]]:
    """Join the first process at `host:port`; yields the seam and the orders that it announces, up to its end."""
    size = config.parallel.dp_size * config.parallel.cp_size
    store = TCPStore(*_parts(address), size, is_master=False, timeout=_TIMEOUT)
    with _joined(config, store, place) as ranks:
        yield ranks, iter(ranks.next_order, _END)


@contextlib.contextmanager
def _joined(config: TrainConfig, store: TCPStore, place: int) -> Iterator[ProcessRanks]:
    from trainer.ranks.processes import ProcessRanks  # imports FSDP2: only where it is used

    size = config.parallel.dp_size * config.parallel.cp_size
    rank = config.parallel.ranks()[place]
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=_TIMEOUT)
    try:
        yield ProcessRanks(config)
    finally:
        dist.destroy_process_group()


def _parts(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _stop(others: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in others:
        if process.poll() is None:
            process.kill()
        process.wait()
