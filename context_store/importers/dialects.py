"""How the trainings of this field print a step. One dialect is one class with `parse`; add it to `DIALECTS`.

A dialect never guesses: a line that it does not know entirely is no row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

_NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf|NaN|Infinity|NAN|INF)"
_RANK = re.compile(r"^\s*\[(?:default|rank)?(\d+)\]:?\s*|^\s*(\d{1,4}):\s+(?=\S)")


@dataclass(frozen=True, kw_only=True)
class Row:
    """Values of one step. `is_eval`: measured beside the training, possibly late and at an older step."""

    step: int
    values: Mapping[str, float]
    is_eval: bool = False
    total: int | None = None  # planned steps, when the line says so


Parse = Callable[[str], Row | None]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """`names`: what its names mean beside the usual. `lasting`: fields that vanish when they are NaN or zero."""

    name: str
    parse: Parse
    names: Mapping[str, str] = field(default_factory=dict)
    lasting: frozenset[str] = frozenset()


def without_rank(line: str) -> tuple[int | None, str]:
    """The rank that printed the line, when it says so, and the line without it."""
    match = _RANK.match(line)
    if match is None:
        return None, line
    return int(match[1] or match[2]), line[match.end() :]


def number(text: str) -> float:
    return float(text.replace(",", ""))


# --- modded-nanogpt and its descendants: `step:10/5100 train_loss:9.1 train_time:65ms step_avg:nanms`

_SPEEDRUN = re.compile(r"^step:(\d+)/(\d+) ((?:\w+:\S+ ?)+)\s*$")
_SPEEDRUN_FIELD = re.compile(rf"(\w+):({_NUMBER})(ms|s|MiB|GiB)?(?= |$)")


def _speedrun(line: str) -> Row | None:
    if not line.startswith("step:") or (match := _SPEEDRUN.match(line)) is None:
        return None
    fields = _SPEEDRUN_FIELD.findall(match[3])
    values = {f"{name}_{unit}" if unit else name: number(value) for name, value, unit in fields}
    return Row(step=int(match[1]), total=int(match[2]), values=values, is_eval="train_loss" not in values)


# --- Megatron-LM and its forks: `iteration 10/ 500 | lm loss: 2.1E+00 | grad norm: 0.2 |`

_MEGATRON = re.compile(r"^(?:\[[^\]]*\]\s*)?iteration\s+(\d+)\s*/\s*(\d+)\s*\|(.*)$")
_MEGATRON_EVAL = re.compile(
    r"^\s*(valid|validation|test) loss at (?:the )?(?:iteration|end of training)\s*(\d+)(?: on (\w+) set)?\s*\|(.*)$"
)


def _megatron(line: str) -> Row | None:
    if "iteration" not in line or "|" not in line:
        return None
    line = line.strip(" -")
    if match := _MEGATRON.match(line):
        return Row(step=int(match[1]), total=int(match[2]), values=_pipes(match[3]))
    if match := _MEGATRON_EVAL.match(line):
        where = "test" if "test" in (match[1], match[3]) else ""
        values = {f"{name}/{where}" if where else name: value for name, value in _pipes(match[4]).items()}
        return Row(step=int(match[2]), values=values, is_eval=True)
    return None


def _pipes(text: str) -> dict[str, float]:
    """`name: number` between bars; everything else between them is left out."""
    values: dict[str, float] = {}
    for part in text.split("|"):
        name, _, value = part.rpartition(":")
        try:
            values[_tidy(name)] = float(value)
        except ValueError:
            continue
    values.pop("", None)
    return values


@cache
def _tidy(name: str) -> str:
    return " ".join(name.split())


_MEGATRON_NAMES = {
    "elapsed time per iteration (ms)": "step_time_ms",
    "elapsed time per iteration (s)": "step_time_s",
    "lm loss value": "eval_loss",
    "lm loss PPL": "eval_ppl",
    "lm loss value/test": "eval_loss/test",
    "lm loss PPL/test": "eval_ppl/test",
    "consumed samples": "samples_seen",
    "consumed tokens": "tokens_seen",
    "global batch size": "global_batch_size",
    "number of skipped iterations": "num_skipped",
    "number of nan iterations": "num_nan",
    "throughput per GPU (TFLOP/s/GPU)": "tflops_per_gpu",
}

# --- torchtitan: `step: 10  loss:  7.1  grad_norm:  1.2  memory:  3.4GiB(4%)  tps: 1,234  tflops: 1.2  mfu: 3.4%`

_TITAN = re.compile(rf"(?:^|\s)(validate )?step:\s*(\d+)\s+((?:[\w/]+:\s*{_NUMBER}\S*\s*)+)$")
_TITAN_FIELD = re.compile(rf"([\w/]+):\s*({_NUMBER})(GiB|%)?")


def _torchtitan(line: str) -> Row | None:
    if "step:" not in line or (match := _TITAN.search(line)) is None:
        return None
    fields = _TITAN_FIELD.findall(match[3])
    values = {f"{name}_gib" if unit == "GiB" else name: number(value) for name, value, unit in fields}
    is_eval = match[1] is not None
    if is_eval:
        values = {f"validate/{name}": value for name, value in values.items()}
    return Row(step=int(match[2]), values=values, is_eval=is_eval) if values else None


_TITAN_NAMES = {
    "tps": "tokens_per_second_per_device",
    "validate/loss": "eval_loss",
    "loss_metrics/global_avg_loss": "loss",
    "memory_gib": "peak_memory_gib",
}

# --- nanoGPT: `iter 10: loss 3.1, time 12.3ms, mfu 4.5%` and `step 250: train loss 3.1, val loss 3.2`

_NANOGPT = re.compile(rf"^iter (\d+): loss ({_NUMBER}), time ({_NUMBER})ms(?:, mfu ({_NUMBER})%)?\s*$")
_NANOGPT_EVAL = re.compile(rf"^step (\d+): train loss ({_NUMBER}), val loss ({_NUMBER})\s*$")


def _nanogpt(line: str) -> Row | None:
    if match := _NANOGPT.match(line):
        values = {"loss": number(match[2]), "step_time_ms": number(match[3])}
        return Row(step=int(match[1]), values=values | ({"mfu": number(match[4])} if match[4] else {}))
    if match := _NANOGPT_EVAL.match(line):
        values = {"eval_loss/train": number(match[2]), "eval_loss": number(match[3])}
        return Row(step=int(match[1]), values=values, is_eval=True)
    return None


# --- nanochat: `step 00100/21400 (0.47%) | loss: 3.1 | dt: 12.3ms | tok/sec: 1,234`, `Step 100 | Validation bpb: 1.1`

_NANOCHAT = re.compile(r"^step (\d+)(?:/(\d+))? \([\d.]+%\) \|(.*)$")
_NANOCHAT_EVAL = re.compile(rf"^Step (\d+) \| ([\w .]+): ({_NUMBER})\b")
_NANOCHAT_FIELD = re.compile(rf"([\w/]+(?: time)?):\s*({_NUMBER})(ms|m|%)?")


def _nanochat(line: str) -> Row | None:
    if match := _NANOCHAT.match(line):
        fields = _NANOCHAT_FIELD.findall(match[3])
        values = {_with_unit(name, unit): number(value) for name, value, unit in fields if name != "eta"}
        return Row(step=int(match[1]), total=int(match[2]) if match[2] else None, values=values)
    if match := _NANOCHAT_EVAL.match(line):
        return Row(step=int(match[1]), values={match[2].strip(): number(match[3])}, is_eval=True)
    return None


def _with_unit(name: str, unit: str) -> str:
    return {"dt": "step_time_ms", "total time": "total_time_min"}.get(name, name) if unit else name


_NANOCHAT_NAMES = {
    "loss": "loss_ema",  # the printed loss is a debiased moving average
    "lrm": "lr_multiplier",
    "tok/sec": "tokens_per_second",
    "bf16_mfu": "mfu",
    "pq": "data_file",
    "rg": "data_row_group",
    "Validation bpb": "eval_bpb",
    "CORE metric": "eval_core",
}

# --- llm.c: `step 10/18865 | train loss 6.1 | norm 1.2 | lr 1.00E-04 | 123.4 ms | 50.0% A100 fp16 MFU | 1234 tok/s`

_LLMC = re.compile(rf"^step\s+(\d+)/(\d+)\s*(?:\||:) (?:train )?loss ({_NUMBER})(.*)$")
_LLMC_FIELD = re.compile(rf"(norm|lr) ({_NUMBER})|({_NUMBER}) (ms|tok/s)\b|({_NUMBER})% .*?MFU")
_LLMC_MAIN = re.compile(rf"^s:(\d+) ((?:[a-z]+:{_NUMBER} ?)+)\s*$")
_LLMC_SHORT = {"tel": "eval_loss", "trl": "loss", "norm": "grad_norm", "lr": "lr", "eval": "eval_accuracy"}


def _llmc(line: str) -> Row | None:
    if match := _LLMC.match(line):
        values = {"loss": number(match[3])}
        for key, value, quantity, unit, mfu in _LLMC_FIELD.findall(match[4]):
            if key:
                values["grad_norm" if key == "norm" else key] = number(value)
            elif unit:
                values["step_time_ms" if unit == "ms" else "tokens_per_second"] = number(quantity)
            else:
                values["mfu"] = number(mfu)
        return Row(step=int(match[1]), total=int(match[2]), values=values)
    if match := _LLMC_MAIN.match(line):
        fields = (part.partition(":") for part in match[2].split())
        values = {_LLMC_SHORT.get(key, key): number(value) for key, _, value in fields}
        return Row(step=int(match[1]), values=values, is_eval="loss" not in values)
    return None


DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="modded-nanogpt log", parse=_speedrun),
    Dialect(
        name="Megatron log",
        parse=_megatron,
        names=_MEGATRON_NAMES,
        lasting=frozenset({"lm loss", "lm loss 1", "moe_loss", "load_balancing_loss"}),
    ),
    Dialect(name="nanochat log", parse=_nanochat, names=_NANOCHAT_NAMES),
    Dialect(name="llm.c log", parse=_llmc),
    Dialect(name="nanoGPT log", parse=_nanogpt),
    Dialect(name="torchtitan log", parse=_torchtitan, names=_TITAN_NAMES),
)
