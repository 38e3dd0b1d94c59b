"""One expert layer whose tokens travel in micro-batches, so that some travel while others are computed (RC2-7.9).

All collectives are asynchronous; gloo works on them in threads of its own, as a second stream would. Dispatch of
micro-batch i + 1 is under way while i is computed, and so is the combine of i - 1; backward likewise.

Shape letters: T own tokens, D model width, F expert width, W processes, M rows received.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from benchmarks.communication_parts.gang import together

Event = tuple[str, float, float]  # what, first and last second


class Travelling:
    """Rows on their way: one of equal stretches goes to each process."""

    def __init__(self, x_TD: Tensor, name: str, events: list[Event]) -> None:
        self._name, self._events, self._begin = name, events, time.perf_counter()
        self._out, self._sent = torch.empty_like(x_TD), x_TD
        work = dist.all_to_all_single(self._out, self._sent, async_op=True)
        assert work is not None
        self._work = work
        work.get_future().add_done_callback(self._arrived)

    def _arrived(self, _: Any) -> None:
        self._events.append((self._name, self._begin, time.perf_counter()))

    def rows(self) -> Tensor:
        self._work.wait()
        return self._out


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One SwiGLU of this process, which rows of all processes come to."""

    gate_FD: Tensor
    up_FD: Tensor
    down_DF: Tensor

    @property
    def weights(self) -> list[Tensor]:
        return [self.gate_FD, self.up_FD, self.down_DF]

    def __call__(self, x_MD: Tensor) -> Tensor:
        hidden = functional.silu(functional.linear(x_MD, self.gate_FD)) * functional.linear(x_MD, self.up_FD)
        return functional.linear(hidden, self.down_DF)


def step(
    layer: Layer, x_TD: Tensor, grad_TD: Tensor, num_parts: int, events: list[Event]
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Output and input gradient of the own tokens, and the gradients of the layer's weights."""
    leaves = list[Tensor]()

    def forward(x_MD: Tensor) -> Tensor:
        leaves.append(x_MD.detach().requires_grad_())
        made.append(layer(leaves[-1]))
        return made[-1].detach()

    made, totals = list[Tensor](), [torch.zeros_like(weight) for weight in layer.weights]
    out_TD = _piped(x_TD.chunk(num_parts), forward, "forward", events)
    waiting = iter(zip(made, leaves, strict=True))

    def backward(grad_MD: Tensor) -> Tensor:
        out_MD, leaf_MD = next(waiting)
        grad_x, *grads = torch.autograd.grad(out_MD, [leaf_MD, *layer.weights], grad_MD)
        torch._foreach_add_(totals, grads)
        return grad_x

    grad_x_TD = _piped(grad_TD.chunk(num_parts), backward, "backward", events)
    return out_TD, grad_x_TD, totals


def _piped(parts: Sequence[Tensor], compute: Callable[[Tensor], Tensor], name: str, events: list[Event]) -> Tensor:
    """`compute` on what arrives of each part, sent back; the next part travels meanwhile."""
    arriving = Travelling(_by_process(parts[0]), f"{name} dispatch 0", events)
    back = []
    for number in range(len(parts)):
        rows_MD = arriving.rows()
        if number + 1 < len(parts):
            arriving = Travelling(_by_process(parts[number + 1]), f"{name} dispatch {number + 1}", events)
        begin = time.perf_counter()
        out_MD = compute(rows_MD)
        events.append((f"{name} compute {number}", begin, time.perf_counter()))
        back.append(Travelling(out_MD, f"{name} combine {number}", events))
    return torch.cat([_by_token(each.rows()) for each in back])


def _by_process(x_TD: Tensor) -> Tensor:
    """Token t goes to process t % W, whatever part it is in."""
    return x_TD.view(-1, dist.get_world_size(), x_TD.shape[1]).transpose(0, 1).reshape(x_TD.shape)


def _by_token(x_TD: Tensor) -> Tensor:
    return x_TD.view(dist.get_world_size(), -1, x_TD.shape[1]).transpose(0, 1).reshape(x_TD.shape)


def overlapped_s(events: Sequence[Event]) -> float:
    """Seconds during which something travelled while something was computed."""
    computed = [(begin, end) for name, begin, end in events if "compute" in name]
    travelled = _merged([(begin, end) for name, begin, end in events if "compute" not in name])
    return sum(max(0.0, min(b, d) - max(a, c)) for a, b in computed for c, d in travelled)


def _merged(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def stepped(tokens: int, width: int, hidden: int, parts: Sequence[int], rounds: int) -> dict[int, dict[str, Any]]:
    """By number of micro-batches: results of one step, seconds of a step and of its overlap, the last timeline."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    x_TD, grad_TD = (torch.randn(tokens, width, generator=generator) for _ in range(2))
    shapes = ((hidden, width), (hidden, width), (width, hidden))
    gate, up, down = ((torch.randn(s, generator=generator) / s[1] ** 0.5).requires_grad_() for s in shapes)
    layer = Layer(gate_FD=gate, up_FD=up, down_DF=down)
    found: dict[int, dict[str, Any]] = {count: {"step_s": [], "overlap_s": []} for count in parts}
    for number in range(rounds + 1):
        for count in parts if number % 2 else reversed(parts):
            events: list[Event] = []
            dist.barrier()
            begin = time.perf_counter()
            results = step(layer, x_TD, grad_TD, count, events)
            if number:
                found[count]["step_s"].append(time.perf_counter() - begin)
                found[count]["overlap_s"].append(overlapped_s(events))
            timeline = [(name, first - begin, last - begin) for name, first, last in sorted(events, key=lambda e: e[1])]
            found[count] |= {"results": results, "timeline": timeline}
    return found


def measure(*, size: int, tokens: int, width: int, hidden: int, rounds: int) -> dict[str, Any]:
    """Medians over the rounds, and the gain over a single batch."""
    parts = (1, 2, 4)
    found = together(stepped, size, tokens, width, hidden, parts, rounds)[0]
    one = found[1]["step_s"]
    return {
        "tokens": tokens,
        **{
            f"micro_batches_{count}": {
                "step_ms": 1e3 * statistics.median(each["step_s"]),
                "overlap_ms": 1e3 * statistics.median(each["overlap_s"]),
                "x_one": statistics.median(a / b for a, b in zip(one, each["step_s"], strict=True)),
                "timeline_ms": [
                    (name, round(1e3 * a, 2), round(1e3 * b, 2)) for name, a, b in found[count]["timeline"]
                ],
            }
            for count, each in found.items()
        },
    }
