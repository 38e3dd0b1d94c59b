"""What `python -m benchmarks.communication` compares is equal, and its counts are those of the formulas."""

from __future__ import annotations

import pytest
import torch

from benchmarks.communication_parts import latents, layouts, pipeline, rank_times, wires
from benchmarks.communication_parts.gang import together
from trainer.ranks.mesh import Mesh
from trainer.ranks.wire import Wire, packed, unpacked

pytestmark = pytest.mark.usefixtures("_one_thread")


@pytest.fixture
def _one_thread() -> None:
    torch.set_num_threads(1)


def near(got: torch.Tensor, want: torch.Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5 * float(want.abs().max()))


def test_both_layouts_are_the_block_of_one_process() -> None:
    """Shows RC2-7.3: equal results; context parallelism gets fewer bytes, and its products stay wide."""
    config = layouts.config_of(64, 256)
    want = layouts.alone(config)
    columns = [Mesh(dp_size=1, cp_size=2, ep_size=1).columns(rank, 64) for rank in range(2)]
    traffic = {}
    for rank, (found, counts) in enumerate(together(layouts.context_parallel, 2, config)):
        for got, whole in zip(found[:2], want[:2], strict=True):
            near(got, whole[:, columns[rank]])
        for got, whole in zip(found[2:], want[2:], strict=True):
            near(got, whole)
        traffic["context"] = counts
    for rank, (found, counts) in enumerate(together(layouts.tensor_parallel, 2, config)):
        for got, whole in zip(found[:2], want[:2], strict=True):
            near(got, whole)
        for name, got, whole in zip(layouts.weights_of(config), found[2:], want[2:], strict=True):
            near(got, layouts._share(name, whole, rank, 2))
        traffic["tensor"] = counts
    keys_and_values = 2 * 32 * 2 * 2 * 32 * 4  # gathered, gradients scattered: 32 of 64 positions, 2 heads of 32
    assert traffic["context"].total_bytes == keys_and_values
    assert traffic["tensor"].total_bytes == 4 * 64 * 256 * 4  # four sums of all activations
    assert traffic["context"].products["32 x 256 x 384"] >= 1
    assert traffic["tensor"].products["64 x 256 x 192"] >= 1


def test_gathered_latents_are_attention_of_one_process() -> None:
    """Shows RC2-7.4: output and all gradients; bytes are the derived ratio of those of keys and values."""
    shape = latents.LatentShape(seq_len=64, width=64, heads=4)
    want = latents.alone(shape)
    for found in together(latents.spread, 2, shape):
        for got, whole in zip(found["results"][:2], want[:2], strict=True):
            near(got, whole[found["columns"]])
        for got, whole in zip(found["results"][2:], want[2:], strict=True):
            near(got, whole)
        assert found["bytes"] == 32 * (64 + 16) * 4
    assert shape.gathered_over_keys_and_values == (64 + 16) / (4 * (48 + 32))


@pytest.mark.parametrize("wire", ["mxfp8", "nvfp4", "bf16"])
def test_rounding_before_sending_is_rounding_behind_it(wire: Wire) -> None:
    """Shows RC2-7.7: a row needs no other one, so any rows may be sent anywhere."""
    x, order = torch.randn(40, 64) * torch.logspace(-2, 2, 40).unsqueeze(1), torch.randperm(40)
    behind = unpacked(packed(x[order], wire), wire, 64, torch.float32)
    before = unpacked(tuple(part[order] for part in packed(x, wire)), wire, 64, torch.float32)
    assert torch.equal(before, behind)


def test_bits_on_the_wire() -> None:
    """Shows RC2-7.7: 8.25 bits a value against 16; results that come back in BF16 are nearer than in MXFP8."""
    found = wires.measure(size=2, rows=64, width=64)
    assert [found[name]["bits"] for name in ("bf16", "mxfp8")] == [16.0, 8.25]
    assert all(each["same_bits"] for each in found.values())
    assert found["bf16"]["combine_error"] < 0.003 < 0.02 < found["mxfp8"]["combine_error"] < 0.04


def test_micro_batches_give_equal_results() -> None:
    """Shows RC2-7.9: however many micro-batches, on each process; with several, something travels meanwhile."""
    for found in together(pipeline.stepped, 2, 64, 32, 48, (1, 2, 4), 2):
        for count in (2, 4):
            for got, want in zip(found[count]["results"][:2], found[1]["results"][:2], strict=True):
                torch.testing.assert_close(got, want)
            for got, want in zip(found[count]["results"][2], found[1]["results"][2], strict=True):
                torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
            assert len(found[count]["timeline"]) == 6 * count


def test_sharing_out_by_attention_evens_the_work() -> None:
    """Shows RC2-7.8: every sequence is on one rank; the busiest rank has least when attention counts too."""
    lengths = rank_times.real_lengths(8192, 64)
    cost = rank_times.Cost(token_s=1e-6, pair_s=4e-9)
    assert max(lengths) > 4 * sorted(lengths)[len(lengths) // 2], "no tail"
    busiest = {}
    for name, ranks in rank_times.shared_out(lengths, 8, cost).items():
        assert sorted(length for rank in ranks for length in rank) == sorted(lengths)
        work = [cost.of(rank) for rank in ranks]
        busiest[name] = max(work) / (sum(work) / len(work))
    assert busiest["by attention too"] < busiest["by tokens"] < busiest["round robin"]
    assert busiest["by attention too"] < 1.15
