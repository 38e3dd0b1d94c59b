"""What a classifier's case asked, was told and measured: typed reading and writing of the store's case work.

Everything here is append-only and idempotent by its key, so whoever dies in the middle does it again to the same end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from context_store import Store
from contracts.errors import NotFound
from loops.quantify.labels import CHECK, Label
from loops.quantify.need import Labeller, Need
from loops.quantify.prompts import LabelPrompt, read_prompt

LOOP = "classifier"
_NOT_OF_THE_NEED = ("documents_sha256", "num_texts", "base")
MAX_SHOWN = 20_000  # characters of a text that are kept with a question
EVALUATION, HELD_OUT, TUNING = "evaluation", "held_out", "tuning"


@dataclass(frozen=True, kw_only=True)
class Question:
    """A text to be labelled. `given`: the label that came with it, None without one."""

    batch: str
    item: str
    text: str
    slices: Mapping[str, str]
    given: bool | None = None


class CaseBook:
    """One case. `at`: the time of what is written."""

    def __init__(self, store: Store, case_id: str, at: float) -> None:
        self._work = store.casework
        self.case_id = case_id
        self._at = at

    # --- the need and the sample

    def put_need(
        self, need: Need, documents_sha256: str, num_texts: int, base: Mapping[str, Any] | None = None
    ) -> None:
        """`base`: what is deployed under its name now."""
        body = {**need.dump(), "documents_sha256": documents_sha256, "num_texts": num_texts, "base": dict(base or {})}
        self._put("need", "need", body)

    def need(self) -> Need:
        """Raises NotFound."""
        body = dict(self.need_body())
        return Need.load({key: value for key, value in body.items() if key not in _NOT_OF_THE_NEED})

    def need_body(self) -> Mapping[str, Any]:
        """With hash and number of the documents. Raises NotFound."""
        found = self._get("need", "need")
        if found is None:
            raise NotFound(f"no classifier '{self.case_id}'", remedy="`lathe classifier list` shows them")
        return found

    def base(self) -> Mapping[str, Any]:
        """What was deployed under the name when the case was opened (a `DeployPayload`), {} for nothing."""
        return dict(self.need_body().get("base", {}))

    def base_sha256(self) -> str:
        return str(self.base().get("sha256", ""))

    def put_sample(self, answer: Mapping[str, Any]) -> None:
        self._put("sample", "sample", answer)

    def sample(self) -> Mapping[str, Any] | None:
        return self._get("sample", "sample")

    # --- what is asked

    def put_batches(self, batches: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Name -> `items` and `labellers`, who have to label them before the case goes on. Returns the new ones."""
        return [name for name, body in batches.items() if self._put("batch", name, body)]

    def batches(self) -> dict[str, Mapping[str, Any]]:
        """In the order in which they were asked."""
        return {each.key: each.body for each in self._work.list(self.case_id, "batch")}

    def checked(self) -> set[str]:
        """Items whose label was asked for again because it looked wrong."""
        return {item for name, batch in self.batches().items() if name.startswith(CHECK) for item in batch["items"]}

    def put_questions(self, questions: Iterable[Question]) -> None:
        for each in questions:
            body = {**vars(each), "slices": dict(each.slices), "text": each.text[:MAX_SHOWN]}
            self._put("question", f"{each.batch}:{each.item}", body)

    def questions(self, batch: str | None = None) -> list[Question]:
        found = (Question(**each.body) for each in self._work.list(self.case_id, "question"))
        return [each for each in found if batch is None or each.batch == batch]

    # --- what was answered

    def put_label(self, label: Label) -> bool:
        """False when this source has labelled it in this batch already."""
        return self._put("label", f"{label.batch}:{label.item}:{label.source}", vars(label))

    def put_unreadable(self, batch: str, item: str, source: str, answer: str) -> None:
        """An answer that names no class, or both."""
        body = {"batch": batch, "item": item, "source": source, "answer": answer[:500]}
        self._put("unreadable", f"{batch}:{item}:{source}", body)

    def unreadable(self) -> list[Mapping[str, Any]]:
        return [each.body for each in self._work.list(self.case_id, "unreadable")]

    def told(self) -> list[Label]:
        """By persons and models, oldest first."""
        return [Label(**each.body) for each in self._work.list(self.case_id, "label")]

    def labels(self) -> list[Label]:
        """Those that count: of models only what the standing prompt said; with the given ones among the questions."""
        given = [
            Label(item=each.item, source=Labeller.GIVEN.value, positive=each.given)
            for each in self.questions()
            if each.given is not None
        ]
        prompt = self.standing_prompt_sha256()
        mine = f"@{prompt[:12]}"
        told = [each for each in self.told() if each.labeller is not Labeller.MODEL or each.source.endswith(mine)]
        return given + told

    def put_labelled(self, batch: str, answer: Mapping[str, Any]) -> None:
        """The model has been through a batch."""
        self._put("labelled", batch, answer)

    def labelled(self) -> dict[str, Mapping[str, Any]]:
        return {each.key: each.body for each in self._work.list(self.case_id, "labelled")}

    def labelling_model(self) -> str:
        """ "" where none has labelled."""
        return next((str(each["model"]) for each in self.labelled().values()), "")

    def prompt_is_held_out(self) -> bool:
        """Has the prompt that stands labelled what is held out?"""
        return HELD_OUT in self.labelled()

    def missing(self) -> dict[str, list[str]]:
        """Of each batch that waits for persons: the items that nobody has labelled yet, in order."""
        done = {(each.batch, each.item) for each in self.told() if each.labeller is Labeller.PERSON}
        asked = {
            name: [item for item in batch["items"] if (name, item) not in done]
            for name, batch in self.batches().items()
            if Labeller.PERSON.value in batch["labellers"]
        }
        return {name: items for name, items in asked.items() if items}

    # --- prompts

    def put_tuned(self, answer: Mapping[str, Any]) -> None:
        """The prompt that stands was decided on; `prompts`: all that were tried, with their decisions."""
        for prompt in answer.get("prompts", ()):
            self._put("prompt", prompt["sha256"], prompt)
        self._put("tuned", "tuned", answer)

    def tuned(self) -> Mapping[str, Any] | None:
        return self._get("tuned", "tuned")

    def prompts(self) -> list[Mapping[str, Any]]:
        """In the order in which they were decided on."""
        return [each.body for each in self._work.list(self.case_id, "prompt")]

    def standing_prompt_sha256(self) -> str:
        """ "" where none was decided on."""
        tuned = self.tuned()
        return "" if tuned is None else str(tuned["stands"])

    def standing_prompt(self, folder: Path) -> LabelPrompt | None:
        """Read from its file, whose bytes are what is sent and exported."""
        sha256 = self.standing_prompt_sha256()
        return read_prompt(prompt_path(folder, sha256)) if sha256 else None

    # --- versions and what became of them

    def put_version(self, body: Mapping[str, Any]) -> None:
        self._put("version", f"v{body['number']}", body)

    def versions(self) -> list[Mapping[str, Any]]:
        """Oldest first. One that could not be made has an `error`."""
        return sorted((each.body for each in self._work.list(self.case_id, "version")), key=lambda each: each["number"])

    def standing(self) -> Mapping[str, Any] | None:
        """The version that was taken last."""
        taken = [each for each in self.versions() if each["decision"]["is_taken"]]
        return taken[-1] if taken else None

    def deployed(self) -> Mapping[str, Any] | None:
        """Version 0: what was deployed when the case was opened, measured on its texts."""
        return next((each for each in self.versions() if each["number"] == 0 and not each.get("error")), None)

    def put_final(self, body: Mapping[str, Any]) -> None:
        self._put("final", "final", body)

    def final(self) -> Mapping[str, Any] | None:
        """The version that stands on what was held out, and what is to be deployed."""
        return self._get("final", "final")

    def put_failure(self, work: str, message: str) -> None:
        self._put("failure", work, {"work": work, "message": message})

    def failures(self) -> list[Mapping[str, Any]]:
        return [each.body for each in self._work.list(self.case_id, "failure")]

    def put_drift(self, key: str, body: Mapping[str, Any]) -> bool:
        """False when these texts were looked at before."""
        return self._put("drift", key, body)

    def drifts(self) -> list[Mapping[str, Any]]:
        return [each.body for each in self._work.list(self.case_id, "drift")]

    def _put(self, kind: str, key: str, body: Mapping[str, Any]) -> bool:
        return bool(self._work.put(self.case_id, kind, key, dict(body), self._at))

    def _get(self, kind: str, key: str) -> Mapping[str, Any] | None:
        try:
            return self._work.get(self.case_id, kind, key).body
        except NotFound:
            return None


def model_path(folder: Path, sha256: str) -> Path:
    return folder / "models" / f"{sha256}.npz"


def prompt_path(folder: Path, sha256: str) -> Path:
    return folder / "prompts" / f"{sha256}.txt"


def documents_path(folder: Path) -> Path:
    return folder / "documents.jsonl"
