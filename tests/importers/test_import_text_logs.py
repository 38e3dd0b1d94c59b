"""Console logs: dialects, encodings, and what is one run, a restart, another run or a late evaluation."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import pytest
from import_writers import Content, read_all

from contracts.enums import RunState

_RULE = "=" * 100


def write(folder: Path, text: str, name: str = "train.log", encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def speedrun(steps: range, total: int, val_every: int = 5) -> str:
    lines = [f"step:0/{total} val_loss:10.8258 train_time:0ms step_avg:nanms"]
    for step in steps:
        average = "nan" if step < 4 else "140.5"
        lines.append(
            f"step:{step}/{total} train_loss:{9 - step / 10:.4f} train_time:{step * 140}ms step_avg:{average}ms"
        )
        if step % val_every == 0:
            lines.append(
                f"step:{step}/{total} val_loss:{9.1 - step / 10:.4f} train_time:{step * 140}ms step_avg:140.5ms"
            )
    return "\n".join(lines) + "\n"


def test_a_speedrun_log_with_its_environment_source_and_config(tmp_path: Path) -> None:
    source = (
        "import torch\n\n@dataclass\nclass Hyperparameters:\n    warmup_iters : int = 250 # warm up\n    name = 'x'\n"
    )
    header = f"{_RULE}\nRunning pytorch 2.5.0+cu124 compiled for CUDA 12.4\nnvidia-smi:\n"
    header += "| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.4     |\n"
    header += "|   0  NVIDIA H100 80GB HBM3          Off | 0:05:00.0 Off |  Off |\n" * 2
    (tmp_path / "train.config.yaml").write_text(
        "config: {muon: {lr: 0.02, betas: [0.9, 0.95]}, seed: 7}\nsource: {commit: abc}\n"
    )
    content = read_all(write(tmp_path, source + header + speedrun(range(1, 11), 10)))
    (run,) = content.runs
    (part,) = run.parts
    assert part.found.config["muon.lr"] == 0.02
    assert part.found.config["muon.betas"] == "[0.9, 0.95]"
    assert part.found.config["warmup_iters"] == 250
    assert part.found.seed == 7
    assert part.found.code_version == ""  # the commit beside is where the log came from, not what ran
    assert part.found.environment["gpus"] == "2 x NVIDIA H100 80GB HBM3"
    assert part.found.environment["torch"] == "2.5.0+cu124"
    assert part.found.started_at == 0.0
    assert part.series("val_loss") == {0: 10.8258, 5: 8.6, 10: 8.1}
    assert len(part.series("train_loss")) == 10
    assert math.isnan(part.series("step_avg_ms")[1])
    assert part.series("train_time_ms")[10] == 1400.0
    assert part.ended is not None
    assert part.ended.state == RunState.COMPLETED
    assert any(hashlib.sha256(source.rstrip("\n").encode()).hexdigest()[:12] in fact.title for fact in run.facts)


def test_runs_one_after_the_other_in_one_file_are_runs_not_restarts(tmp_path: Path) -> None:
    content = read_all(write(tmp_path, speedrun(range(1, 11), 10) * 3))
    assert [run.found.name for run in content.runs] == ["train", "train-2", "train-3"]
    assert {run.found.key for run in content.runs} == {f"{tmp_path}/train.log#{n}" for n in (1, 2, 3)}
    assert all(len(run.parts) == 1 and run.parts[0].series("val_loss")[0] == 10.8258 for run in content.runs)


def test_runs_that_only_evaluate_are_told_apart_too(tmp_path: Path) -> None:
    one = "".join(
        f"step:{s}/100 val_loss:{4 - s / 100} train_time:{s / 10:.3f}s step_avg:1.00ms\n" for s in range(0, 101, 25)
    )
    content = read_all(write(tmp_path, one * 20))
    assert len(content.runs) == 20
    assert all(list(run.parts[0].series("val_loss")) == [0, 25, 50, 75, 100] for run in content.runs)
    assert content.runs[0].parts[0].series("train_time_s")[100] == 10.0


def megatron(step: int, loss: str = "2.1E+00", total: int = 100) -> str:
    fields = f"consumed samples: {step * 8} | elapsed time per iteration (ms): 812.5 | learning rate: 1.0E-04 |"
    loss = f" lm loss: {loss} |" if loss else ""
    return (
        f" [2024-01-02 03:04:05] iteration {step:8d}/{total:8d} | {fields}{loss} loss scale: 1.0 | grad norm: 0.5 |\n"
    )


def test_a_restart_from_a_checkpoint_is_a_segment(tmp_path: Path) -> None:
    before = "  micro_batch_size ................................ 4\n  seed ............ 1234\n"
    before += "".join(megatron(step) for step in range(1, 56))
    again = " loading checkpoint from /ckpt at iteration 50\n" + "".join(megatron(step) for step in range(51, 61))
    content = read_all(write(tmp_path, before + again))
    (run,) = content.runs
    assert [(part.found.number, part.found.start_step) for part in run.parts] == [(0, 0), (1, 50)]
    assert run.parts[0].found.config["micro_batch_size"] == 4
    assert run.parts[0].found.seed == 1234
    assert run.parts[1].found.start_checkpoint == "/ckpt"
    assert sorted(run.parts[1].series("lm loss")) == list(range(51, 61))


def test_a_process_that_goes_on_without_overlap_is_a_segment_and_a_hole_is_not(tmp_path: Path) -> None:
    text = "".join(megatron(step) for step in (10, 20, 70))
    text += "successfully loaded checkpoint from /ckpt at iteration 70\n" + megatron(80)
    (run,) = read_all(write(tmp_path, text)).runs
    assert [part.found.start_step for part in run.parts] == [0, 70]


def test_a_late_evaluation_is_no_restart(tmp_path: Path) -> None:
    text = "".join(megatron(step) for step in range(1, 31))
    text += " validation loss at iteration 20 on validation set | lm loss value: 2.5E+00 | lm loss PPL: 1.2E+01 |\n"
    text += "".join(megatron(step) for step in range(31, 41))
    (run,) = read_all(write(tmp_path, text)).runs
    (part,) = run.parts
    assert part.series("lm loss value") == {20: 2.5}
    assert len(part.series("lm loss")) == 40


def test_a_log_that_begins_in_the_middle_and_both_layouts(tmp_path: Path) -> None:
    text = "[default7]: iteration    31218/  115311 | elapsed time per iteration (s): 107.53 | lm loss: 2.3E+00 |\n"
    text += "[default7]: iteration   42780/ 115311 | learning  rate: 4.475E-05 | lm loss: 2.1E+00 | TFLOPs: 145.82 |\n"
    text += "[default7]:valid loss at iteration 45000 | lm loss value: 2.3E+00 | lm loss PPL: 1.0E+01 |\n"
    (run,) = read_all(write(tmp_path, text)).runs
    assert [part.found.start_step for part in run.parts] == [31217]
    assert run.parts[0].series("learning rate") == {42780: 4.475e-05}


def test_a_loss_that_vanishes_is_reported(tmp_path: Path) -> None:
    text = "".join(megatron(step, "" if 20 <= step < 23 else "2.0E+00") for step in range(1, 31))
    (run,) = read_all(write(tmp_path, text)).runs
    assert 21 not in run.parts[0].series("lm loss")
    (fact,) = [fact for fact in run.facts if "missing" in fact.title]
    assert fact.step == 20
    assert fact.detail["steps"] == [20, 21, 22]


def test_ranks_that_print_the_same_step_get_series_of_their_own(tmp_path: Path) -> None:
    text = "".join(
        f"[rank{r}]:step:  {s}  loss:  {7 + r}.5  tps: 1,234  mfu: 40.1%\n" for s in (1, 2, 3) for r in (0, 1)
    )
    (run,) = read_all(write(tmp_path, text)).runs
    assert run.parts[0].series("loss") == {1: 7.5, 2: 7.5, 3: 7.5}
    assert run.parts[0].series("loss@rank=1") == {1: 8.5, 2: 8.5, 3: 8.5}
    assert run.parts[0].series("tps")[1] == 1234.0


def test_colours_and_progress_bars(tmp_path: Path) -> None:
    red, off = "\x1b[31m", "\x1b[0m"
    text = f"[titan] - INFO - {red}step:  1  {off}loss:  7.1  {red}grad_norm:  1.2"
    text += f"  memory:  3.41GiB(4.31%)  {off}tps: 10,000\n"
    text += "  0%|   | 0/9\r 50%|## | 5/9\r[titan] - INFO - step:  2  loss:  inf  grad_norm:  nan\r\n"
    text += "[titan] - INFO - validate step:  2  loss:  6.9  memory:  1.0GiB(2%)\n"
    (run,) = read_all(write(tmp_path, text)).runs
    part = run.parts[0]
    assert part.series("loss") == {1: 7.1, 2: math.inf}
    assert math.isnan(part.series("grad_norm")[2])
    assert part.series("memory_gib") == {1: 3.41}
    assert part.series("validate/loss") == {2: 6.9}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    text = "start in C:\\Users\\Jörg\\新加卷 — Ω\r\n" + speedrun(range(1, 11), 10).replace("\n", "\r\n")
    (run,) = read_all(write(tmp_path, text, encoding=encoding)).runs
    assert len(run.parts[0].series("train_loss")) == 10


def test_nanogpt(tmp_path: Path) -> None:
    text = "number of parameters: 123.59M\nstep 0: train loss 10.9, val loss 10.95\n"
    text += "iter 0: loss 10.9, time 900.00ms, mfu -100.00%\niter 10: loss 9.5, time 120.50ms, mfu 31.20%\n"
    text += "step 20: train loss 8.5, val loss 8.6\niter 20: loss 8.4, time 119ms, mfu 31%\n"
    (run,) = read_all(write(tmp_path, text)).runs
    part = run.parts[0]
    assert part.series("loss") == {0: 10.9, 10: 9.5, 20: 8.4}
    assert part.series("eval_loss") == {0: 10.95, 20: 8.6}
    assert part.series("mfu")[10] == 31.2


def test_nanochat(tmp_path: Path) -> None:
    line = "step {0:05d}/00300 ({0}.00%) | loss: 3.1 | lrm: 1.00 | dt: 123.40ms | tok/sec: 1,048,576 | bf16_mfu: 40.10"
    line += " | epoch: 1 pq: 2 rg: 3 | total time: 1.20m | eta: 3.4m\n"
    text = "Step 00000 | Validation bpb: 3.3\n" + line.format(1) + line.format(2) + "Step 00002 | CORE metric: 0.2106\n"
    (run,) = read_all(write(tmp_path, text)).runs
    part = run.parts[0]
    assert part.series("tok/sec")[1] == 1_048_576.0
    assert part.series("step_time_ms")[1] == 123.4
    assert part.series("rg")[2] == 3.0
    assert part.series("CORE metric") == {2: 0.2106}
    assert run.found.names["loss"] == "loss_ema"  # what it prints is a moving average, no raw loss


def test_llmc(tmp_path: Path) -> None:
    line = "step {:4d}/18865 | train loss 6.12 | norm 1.23 | lr 1.00E-04 | 123.45 ms"
    line += " | 50.0% A100 fp16 MFU | 123456 tok/s\n"
    (run,) = read_all(write(tmp_path, line.format(1) + line.format(2))).runs
    part = run.parts[0]
    assert part.series("grad_norm") == {1: 1.23, 2: 1.23}
    assert part.series("tokens_per_second")[2] == 123456.0
    assert part.series("lr")[1] == 1e-4
    (main,) = read_all(write(tmp_path, "s:0 tel:11.0\ns:1 trl:10.9\ns:250 tel:6.5\n", "main.log")).runs
    assert main.parts[0].series("eval_loss") == {0: 11.0, 250: 6.5}


def points_of(content: Content) -> dict[tuple[str, int], str]:
    return {key: repr(values) for run in content.runs for part in run.parts for key, values in part.points.items()}


def test_a_log_cut_anywhere_gives_what_was_whole(tmp_path: Path) -> None:
    whole = speedrun(range(1, 16), 15).encode()
    (tmp_path / "a.log").write_bytes(whole)
    complete = points_of(read_all(tmp_path / "a.log"))
    for cut in range(200, len(whole), 97):
        (tmp_path / "a.log").write_bytes(whole[: whole.rfind(b"\n", 0, cut) + 1])
        partial = points_of(read_all(tmp_path / "a.log"))
        assert all(complete[key].startswith(values[:-1]) for key, values in partial.items())


def test_lines_without_an_end_are_left_out(tmp_path: Path) -> None:
    text = speedrun(range(1, 6), 10) + "x" * 2_500_000 + "\n" + speedrun(range(6, 9), 10).partition("\n")[2]
    content = read_all(write(tmp_path, text))
    assert sorted(content.runs[0].parts[0].series("train_loss")) == list(range(1, 9))
    assert any("longer" in problem.what for problem in content.problems)
