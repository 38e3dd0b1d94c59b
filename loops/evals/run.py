"""One evaluation: a task asked by a protocol of a model. Everything it saw and decided is in its outputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from context_store.canonical import canonical_json, content_hash
from contracts.events import Scalar
from loops.evals.extraction import EXTRACTORS, extractors_of, is_right
from loops.evals.model import Asked, EvaluatedModel, Weighed, Written
from loops.evals.preflight import Caution, preflight
from loops.evals.prompts import Prompt, prompts
from loops.evals.protocol import Mode, Protocol, Start
from loops.evals.task import Item, Task

HARNESS = "lathe"
VERSION = "1"
_SHOWN_IDS = 16

Floats = NDArray[np.float64]
Judge = Callable[[Item, str], bool]  # runs a program of a code item; True when its tests pass


@dataclass(frozen=True, kw_only=True)
class Output:
    """One answer. `right` is by the protocol's own extractor; `by_extractor`: answer found (None: unparsed) and right.

    `logprobs`: of each option, where options are weighed. `tail` is the prompt from the last question on.
    """

    item: str
    candidate: int
    prompt_sha256: str
    tail: str
    text: str
    finish: str
    stopped_by: str
    found: str | None
    expected: str
    right: bool
    by_extractor: Mapping[str, tuple[str | None, bool]]
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """All outputs of a task under a protocol. Shares are of items, 0..1; `unparsed` answers are not among `wrong`."""

    task: Task
    protocol: Protocol
    model: str
    facts: Mapping[str, Scalar]
    warnings: tuple[Caution, ...]
    first_ids: tuple[int, ...]  # of the first prompt, its beginning; () where the model does not tell
    outputs: tuple[Output, ...]

    @cached_property
    def right(self) -> Floats:
        """[I] share of right answers of each item, in the order of the task."""
        return self._by_item([output.right for output in self.outputs])

    def right_by(self, extractor: str) -> Floats:
        """As `right`, by another extractor over the same outputs."""
        return self._by_item([output.by_extractor[extractor][1] for output in self.outputs])

    @property
    def accuracy(self) -> float:
        return float(self.right.mean())

    @property
    def stderr(self) -> float:
        """Binomial standard error over the items."""
        return float(np.sqrt(self.right.var() / max(self.right.size - 1, 1)))

    @property
    def unparsed(self) -> float:
        return float(np.mean([output.found is None for output in self.outputs]))

    @property
    def wrong(self) -> float:
        return float(np.mean([output.found is not None and not output.right for output in self.outputs]))

    @property
    def disagreement(self) -> float:
        """Share of answers that some extractor that found one calls right and another that found one calls wrong."""
        votes = [{right for found, right in each.by_extractor.values() if found is not None} for each in self.outputs]
        return float(np.mean([len(vote) > 1 for vote in votes]))

    @property
    def identity(self) -> dict[str, Any]:
        """The identity fields of a stored score; equal identities may be compared."""
        settings = {
            "task": self.task.digest,
            "protocol": self.protocol.digest,
            "num_items": len(self.task.items),
            "start": str(self.protocol.start),
            "generation": {
                "max_tokens": self.protocol.max_tokens,
                "temperature": self.protocol.temperature,
                "top_p": self.protocol.top_p,
                "candidates": self.protocol.candidates,
            },
            **self.facts,
        }
        return {
            "benchmark": self.task.name,
            "metric": "acc_norm" if self.protocol.mode is Mode.LIKELIHOOD else "accuracy",
            "protocol": f"{self.protocol.name}/{self.protocol.version}",
            "shots": self.protocol.shots,
            "template": self.protocol.template_digest,
            "stop_set": self.protocol.stop,
            "extractor": self.protocol.extractor,
            "harness": HARNESS,
            "harness_version": VERSION,
            "settings": settings,
        }

    def _by_item(self, right: Sequence[bool]) -> Floats:
        by_item: Floats = np.array(right, dtype=np.float64).reshape(len(self.task.items), -1).mean(axis=1)
        return by_item


def evaluate(
    task: Task, protocol: Protocol, model: EvaluatedModel, *, seed: int = 0, judge: Judge | None = None
) -> Evaluation:
    """Ask every item. `judge` runs code, and only code items need one.

    Raises UserInputError where the task lacks what the protocol asks for.
    """
    asked_of = prompts(task, protocol)
    first = _asked(asked_of[0], protocol, seed)
    warnings = preflight(first, protocol, model, [prompt.item.answer for prompt in asked_of])
    weigh = protocol.mode is Mode.LIKELIHOOD
    outputs = _weighed(asked_of, protocol, model) if weigh else _written(asked_of, protocol, model, seed, judge)
    return Evaluation(
        task=task,
        protocol=protocol,
        model=model.name,
        facts=dict(model.facts),
        warnings=tuple(warnings),
        first_ids=tuple(told[0][:_SHOWN_IDS]) if (told := model.tokens(first)) else (),
        outputs=tuple(outputs),
    )


def save(evaluation: Evaluation, folder: Path) -> tuple[Path, str]:
    """Write the outputs as JSON lines, the first line says what they are; returns the file and its name's hash."""
    head = {
        "identity": evaluation.identity,
        "model": evaluation.model,
        "accuracy": evaluation.accuracy,
        "unparsed": evaluation.unparsed,
        "wrong": evaluation.wrong,
        "disagreement": evaluation.disagreement,
        "first_token_ids": list(evaluation.first_ids),
        "warnings": [asdict(each) for each in evaluation.warnings],
    }
    lines = [canonical_json(head), *(canonical_json(asdict(each)) for each in evaluation.outputs)]
    content = "\n".join(lines) + "\n"
    digest = content_hash(content)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{evaluation.task.name}.{evaluation.protocol.name}.{digest[:16]}.jsonl"
    path.write_text(content)
    return path, digest


def saved_outputs(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What `save` wrote: the head and a row an answer."""
    head, *rows = [json.loads(line) for line in path.read_text().splitlines()]
    return head, rows


def _asked(prompt: Prompt, protocol: Protocol, seed: int) -> Asked:
    return Asked(
        text=prompt.text,
        prefill=prompt.prefill,
        stop=protocol.stop,
        max_tokens=protocol.max_tokens,
        temperature=protocol.temperature,
        top_p=protocol.top_p,
        seed=seed,
        chat=protocol.chat,
        starts=protocol.start is Start.ADDED,
    )


def _weighed(asked_of: Sequence[Prompt], protocol: Protocol, model: EvaluatedModel) -> list[Output]:
    asked = [_asked(prompt, protocol, 0) for prompt in asked_of for _ in prompt.options]
    weighed = iter(model.weigh(asked, [option for prompt in asked_of for option in prompt.options]))
    return [_chosen(prompt, [next(weighed) for _ in prompt.options], protocol) for prompt in asked_of]


def _chosen(prompt: Prompt, weighed: Sequence[Weighed], protocol: Protocol) -> Output:
    """The option of the highest log-likelihood, per byte where the protocol normalises; the first one of equal ones."""
    sizes = [len(option.encode()) if protocol.normalised else 1 for option in prompt.options]
    values = [each.logprob / size for each, size in zip(weighed, sizes, strict=True)]
    found = prompt.item.choices[int(np.argmax(values))]
    right = found == prompt.item.answer
    return Output(
        item=prompt.item.id,
        candidate=0,
        prompt_sha256=content_hash(prompt.text),
        tail=prompt.text[-400:],
        text=found,
        finish="weighed",
        stopped_by="",
        found=found,
        expected=prompt.item.answer,
        right=right,
        by_extractor={protocol.extractor: (found, right)},
        logprobs=tuple(each.logprob for each in weighed),
    )


def _written(
    asked_of: Sequence[Prompt], protocol: Protocol, model: EvaluatedModel, seed: int, judge: Judge | None
) -> list[Output]:
    candidates = range(protocol.candidates)
    asked = [_asked(prompt, protocol, _seed(seed, n, c)) for n, prompt in enumerate(asked_of) for c in candidates]
    texts = iter(model.write(asked))
    return [_read(prompt, c, next(texts), protocol, judge) for prompt in asked_of for c in candidates]


def _seed(seed: int, number: int, candidate: int) -> int:
    return int(content_hash([seed, number, candidate])[:12], 16)


def _read(prompt: Prompt, candidate: int, written: Written, protocol: Protocol, judge: Judge | None) -> Output:
    whole = prompt.prefill + written.text
    found_by = {}
    for name in extractors_of(protocol.extractor, protocol.matching):
        found = EXTRACTORS[name](written.text if protocol.mode is Mode.CODE else whole)
        found_by[name] = (found, found is not None and _right(found, prompt, protocol, judge))
    found, right = found_by[protocol.extractor]
    return Output(
        item=prompt.item.id,
        candidate=candidate,
        prompt_sha256=content_hash(prompt.text),
        tail=prompt.text[-400:],
        text=whole,
        finish=written.finish,
        stopped_by=written.stopped_by,
        found=found,
        expected=prompt.item.answer,
        right=right,
        by_extractor=found_by,
    )


def _right(found: str, prompt: Prompt, protocol: Protocol, judge: Judge | None) -> bool:
    if protocol.mode is not Mode.CODE:
        return is_right(found, prompt.item, protocol.matching)
    assert judge is not None, "code is judged by running it: pass a judge"
    continues = protocol.extractor == "continuation"
    program = prompt.item.code.signature + found if continues and prompt.item.code else found
    return judge(prompt.item, program)
