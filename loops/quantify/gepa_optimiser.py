"""GEPA (Agrawal et al. 2025, arXiv 2507.19457) as optimiser of labelling prompts; needs the extra `gepa`.

The prompt as a whole is the one text that GEPA evolves, and every evaluation goes through our own judge, which sends
exactly that text. So what it found good is what is used and exported; nothing is rendered by a framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contracts.errors import EnvironmentFault
from loops.quantify.need import Need
from loops.quantify.optimiser import Examples, Judge
from loops.quantify.prompts import LabelPrompt, quoted

_PART = "prompt"


@dataclass(frozen=True, kw_only=True)
class ByGepa:
    """`reflect`: answers the question how to write the prompt better. `max_labels`: labelling calls in all.

    `propose` raises EnvironmentFault where the extra is not installed.
    """

    need: Need
    reflect: Callable[[str], str]
    max_labels: int = 200
    seed: int = 0
    name: str = "gepa"

    def propose(self, prompt: LabelPrompt, examples: Examples, judge: Judge) -> Iterator[LabelPrompt]:
        """At most one: the best it found, if that is another one."""
        try:
            import gepa
        except ImportError:
            raise EnvironmentFault(
                "GEPA is not installed",
                remedy='install it: pip install -e ".[gepa]", or use the optimiser `by mistakes`',
            ) from None
        data = list(zip(examples.texts, examples.labels.tolist(), strict=True))
        found = gepa.optimize(
            seed_candidate={_PART: prompt.text}, trainset=data[::2], valset=data[1::2],
            adapter=_Adapter(self.need, judge, gepa.EvaluationBatch), reflection_lm=self.reflect,
            max_metric_calls=self.max_labels, seed=self.seed, logger=_Silence(), display_progress_bar=False,
        )  # fmt: skip
        best = found.best_candidate[_PART]
        if best != prompt.text:
            yield LabelPrompt(text=best, parent=prompt.sha256, why=f"{self.name}, {found.total_metric_calls} labels")


class _Silence:
    def log(self, message: str) -> None:
        """GEPA's own progress is not ours."""


class _Adapter:
    """What GEPA asks of a system that it optimises."""

    propose_new_texts = None  # it asks `reflect` in its own words

    def __init__(self, need: Need, judge: Judge, batch_type: Callable[..., Any]) -> None:
        self._need = need
        self._judge = judge
        self._batch_type = batch_type

    def evaluate(self, batch: list[tuple[str, bool]], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        said = self._judge(LabelPrompt(text=candidate[_PART]), [text for text, _ in batch])
        scores = [float(each == label) for each, (_, label) in zip(said, batch, strict=True)]
        traces = [
            {"text": text, "said": self._word(each), "right": self._word(label)}
            for each, (text, label) in zip(said, batch, strict=True)
        ]
        return self._batch_type(outputs=said, scores=scores, trajectories=traces if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        rows = [
            {
                "Inputs": {"text": quoted(each["text"], 600)},
                "Generated Outputs": each["said"],
                "Feedback": "right" if each["said"] == each["right"] else f"wrong: it is {each['right']}",
            }
            for each in eval_batch.trajectories
        ]
        return dict.fromkeys(components_to_update, rows)

    def _word(self, label: bool | None) -> str:
        return "no readable answer" if label is None else self._need.classes[0 if label else 1]
