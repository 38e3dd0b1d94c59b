"""Who is asked to label what: the sample, the next texts, the model that labels them, and the tuning of its prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agents.llm.errors import ContextTooLong, ModelConfused, ModelRefused
from contracts.errors import BudgetExceeded, UserInputError
from loops.classifiers import few_labels
from loops.classifiers.groups import Ints, near_duplicates, resembling, signatures
from loops.classifiers.model import Bools
from loops.classifiers.selection import next_to_label
from loops.core import Workplace
from loops.pipelines.component import digest_of
from loops.quantify import measured
from loops.quantify.bench import GROUPS_FILE, Bench, basis, book_of, open_bench
from loops.quantify.casebook import EVALUATION, HELD_OUT, TUNING, CaseBook, Question, documents_path, prompt_path
from loops.quantify.deployment import BASE_FOLDER, PROMPT_FILE, TAUGHT_FILE, DeployPayload, require_model
from loops.quantify.documents import Documents, read_documents
from loops.quantify.gepa_optimiser import ByGepa
from loops.quantify.labeller import Asker, DoorAsker
from loops.quantify.labels import Label, reference
from loops.quantify.need import Labeller, Need, Optimiser, Option
from loops.quantify.optimiser import ByMistakes, Examples, PromptOptimiser, Tuned, tune
from loops.quantify.prompts import LabelPrompt, first_prompt, read_answer, read_prompt
from loops.quantify.revisions import RevisionKind
from loops.quantify.sample import sample

Json = Mapping[str, Any]
_TOLD_EVERY = 25  # texts
_WRITE = "You improve instructions for labelling texts."


def scaler(need: Need) -> Labeller:
    """Who labels for training."""
    return Labeller.MODEL if Labeller.MODEL in need.labellers else need.labellers[0]


def sample_texts(place: Workplace, arguments: Json) -> Json:
    """Which texts judge; the first questions. The set's hash stays the same for all versions (R801-5.5)."""
    book, documents = book_of(place), read_documents(documents_path(place.folder))
    need = book.need()
    place.tell(f"looks for near-duplicates among {len(documents.texts)} texts")
    groups = near_duplicates(documents.texts)
    np.save(place.folder / GROUPS_FILE, groups)
    labelled = np.array([item in documents.labels for item in documents.ids])
    judged_by_given = need.labellers[0] is Labeller.GIVEN
    can = labelled if judged_by_given else np.ones(groups.size, dtype=np.bool_)
    chosen = sample(need, groups, np.flatnonzero(can & ~_taught_deployed(place, documents)))
    judges = need.labellers[:1] + ((Labeller.MODEL,) if Labeller.MODEL in need.labellers[1:] else ())
    pool = chosen.pool[labelled[chosen.pool]] if scaler(need) is Labeller.GIVEN else chosen.pool
    first = pool[_at_random(need, groups[pool])]
    num_tuning = need.per_round // 2 if is_tuned(need) else 0
    names = {EVALUATION: _names(documents, chosen.evaluation), HELD_OUT: _names(documents, chosen.held_out)}
    batches = {
        EVALUATION: _ask(book, documents, EVALUATION, chosen.evaluation, judges),
        HELD_OUT: _ask(
            book, documents, HELD_OUT, chosen.held_out, need.labellers[:1] if need.option is Option.MODEL else judges
        ),
        **({TUNING: _ask(book, documents, TUNING, first[:num_tuning], need.labellers[:1])} if num_tuning else {}),
        "train-1": _ask(book, documents, "train-1", first[num_tuning:], (scaler(need),)),
    }
    return {
        **names, "sha256": digest_of([documents.sha256, names]), "num_groups": int(np.unique(groups).size),
        "num_pool": int(chosen.pool.size), "documents_sha256": documents.sha256, "batches": batches,
    }  # fmt: skip


def _taught_deployed(place: Workplace, documents: Documents) -> Bools:
    """Texts that taught what is deployed, and their near-duplicates: they do not judge it."""
    path = place.folder / BASE_FOLDER / TAUGHT_FILE
    if not path.exists():
        return np.zeros(len(documents.texts), dtype=np.bool_)
    return resembling(np.load(path), signatures(documents.texts))


def is_tuned(need: Need) -> bool:
    """Can prompts be judged? Not where the model's own labels are the reference: it always agrees with itself."""
    return Labeller.MODEL in need.labellers and need.labellers[0] is not Labeller.MODEL


def _at_random(need: Need, groups: Ints) -> Ints:
    unlabelled, unsure = np.zeros(groups.size, dtype=np.bool_), np.full(groups.size, 0.5)
    rng = np.random.default_rng(need.seed)
    return next_to_label(unsure, groups, unlabelled, need.first_labels, rng=rng, share=1.0)


def _names(documents: Documents, numbers: Ints) -> list[str]:
    return [documents.ids[each] for each in numbers.tolist()]


def _ask(book: CaseBook, documents: Documents, batch: str, numbers: Ints, labellers: Sequence[Labeller]) -> Json:
    """The batch; its texts are written down where somebody has to read them: those that judge are shown in any case."""
    asked = {"items": _names(documents, numbers), "labellers": [each.value for each in labellers]}
    if batch not in (EVALUATION, HELD_OUT, TUNING) and set(labellers) == {Labeller.GIVEN}:
        return asked
    need = book.need()
    given = documents.labels if Labeller.GIVEN in need.labellers else {}
    book.put_questions(
        Question(
            batch=batch, item=documents.ids[at], text=documents.texts[at],
            slices={name: values[at] for name, values in documents.slices.items()},
            given=need.is_positive(given[documents.ids[at]]) if documents.ids[at] in given else None,
        )
        for at in numbers.tolist()
    )  # fmt: skip
    return asked


def ask_for_labels(place: Workplace, arguments: Json) -> Json:
    """The next texts to be labelled: those whose labels would say most, or whose label looks wrong."""
    book = book_of(place)
    bench, batch, num = open_bench(place, book), str(arguments["batch"]), int(arguments["num_texts"])
    if arguments["kind"] == RevisionKind.CHECK:
        at, checked = bench.documents.place(), book.checked()
        wrong = [item for item in basis(book.versions())["suspicious"] if item not in checked]
        numbers, labellers = np.array([at[item] for item in wrong[:num]], dtype=np.int64), (Labeller.PERSON,)
    else:
        numbers, labellers = _telling_most(bench, batch, num), (scaler(bench.need),)
    return {"batches": {batch: _ask(book, bench.documents, batch, numbers, labellers)}}


def _telling_most(bench: Bench, batch: str, num: int) -> Ints:
    can = bench.corpus.pool.copy()
    if scaler(bench.need) is Labeller.GIVEN:
        can &= np.array([item in bench.documents.labels for item in bench.documents.ids])
    numbers = np.flatnonzero(can)
    pool = few_labels.pool(bench.corpus.part(numbers), bench.corpus.groups[numbers])
    known, labels = bench.corpus.known[numbers], bench.corpus.labels[numbers]
    rng = np.random.default_rng([bench.need.seed, int(batch.rpartition("-")[2])])
    return np.asarray(numbers[few_labels.ask_next(pool, known, labels, num, rng=rng)])


# --- the language model as labeller


def label_batch(place: Workplace, arguments: Json) -> Json:
    """The model labels what it has not labelled of a batch; it stops where the budget ends."""
    book, batch = book_of(place), str(arguments["batch"])
    prompt, clerk = book.standing_prompt(place.folder), _Clerk(place, book)
    assert prompt is not None
    stopped = ""
    try:
        clerk.label(prompt, batch, {each.item: each.text for each in book.questions(batch)})
    except BudgetExceeded as error:
        stopped = error.message
    return {"batch": batch, "stopped": stopped, "cost": vars(clerk.asker.cost), "model": clerk.asker.name}


def label_with_deployed(
    place: Workplace, book: CaseBook, payload: DeployPayload, texts: Mapping[str, str]
) -> dict[str, bool]:
    """What the deployed prompt says of texts. UserInputError with another model than it was approved with."""
    clerk = _Clerk(place, book)
    require_model(payload, clerk.asker.name)
    return clerk.label(read_prompt(place.folder / BASE_FOLDER / PROMPT_FILE), "deployed", texts)


def tune_prompt(place: Workplace, arguments: Json) -> Json:
    """The first prompt, and each one that the optimiser proposes, judged on the evaluation set: all of them with their
    decisions; their bytes become files of the case, named by their hash."""
    book = book_of(place)
    need, first = book.need(), first_prompt(book.need())
    tuned = _tuned(place, book, first) if is_tuned(need) else Tuned(prompt=first, tried=())
    judged = [(first, {"is_taken": True, "reason": "the first prompt"})]
    judged += [(prompt, measured.decision_of(decision)) for prompt, decision in tuned.tried]
    for prompt, _ in judged:
        path = prompt_path(place.folder, prompt.sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        prompt.export(path)
    prompts = [
        {"sha256": each.sha256, "text": each.text, "parent": each.parent, "why": each.why, "decision": decision}
        for each, decision in judged
    ]  # fmt: skip
    return {
        "num_tried": len(tuned.tried), "stands": tuned.prompt.sha256, "stopped": tuned.stopped, "prompts": prompts
    }  # fmt: skip


def _tuned(place: Workplace, book: CaseBook, first: LabelPrompt) -> Tuned:
    clerk, bench = _Clerk(place, book), open_bench(place, book)
    shown = {each.item: each.text for each in book.questions()}
    counted = reference(bench.labels, bench.need.labellers)
    item_of = {text: item for item, text in shown.items()}

    def judge(prompt: LabelPrompt, texts: Sequence[str]) -> list[bool | None]:
        said = clerk.label(prompt, "prompt", {item_of[text]: text for text in texts})
        return [said.get(item_of[text]) for text in texts]

    examples = _examples([each.item for each in book.questions(TUNING)], shown, counted)
    judging = _examples(bench.ids(bench.evaluation), shown, counted)
    return tune(first, _optimiser(clerk), examples, judging, bench.on, judge)


def _optimiser(clerk: _Clerk) -> PromptOptimiser:
    need, asker = clerk.need, clerk.asker
    if need.optimiser is Optimiser.GEPA:
        return ByGepa(need=need, reflect=lambda question: asker.ask(_WRITE, question), seed=need.seed)
    return ByMistakes(need=need)


def _examples(items: Sequence[str], shown: Mapping[str, str], counted: Mapping[str, bool]) -> Examples:
    """Those with a reference label."""
    known = [item for item in items if item in counted]
    return Examples(
        texts=tuple(shown[item] for item in known), labels=np.array([counted[item] for item in known], dtype=np.bool_)
    )


class _Clerk:
    """Labels through the door, each text once a prompt, whoever died in between. UserInputError without a model."""

    def __init__(self, place: Workplace, book: CaseBook) -> None:
        door = place.door()
        if door is None:
            raise UserInputError(
                "no language model is set, so none can label", remedy="set LATHE_MODEL, or let persons label"
            )
        self.asker: Asker = DoorAsker(door)
        self._place, self._book, self.need = place, book, book.need()

    def label(self, prompt: LabelPrompt, batch: str, texts: Mapping[str, str]) -> dict[str, bool]:
        """Of the items whose answer can be read."""
        source = f"{Labeller.MODEL.value}:{self.asker.name}@{prompt.sha256[:12]}"
        said = {each.item: each.positive for each in self._book.told() if each.source == source}
        unread = {str(each["item"]) for each in self._book.unreadable() if each["source"] == source}
        todo = [item for item in texts if item not in said and item not in unread]
        for number, item in enumerate(todo):
            if number % _TOLD_EVERY == 0:
                self._place.tell(f"{self.asker.name} labels {batch}: {number} of {len(todo)}")
            answer, label = self._answer(prompt, texts[item])
            if label is None:
                self._book.put_unreadable(batch, item, source, answer)
            else:
                self._book.put_label(Label(item=item, source=source, positive=label, batch=batch))
                said[item] = label
        return {item: said[item] for item in texts if item in said}

    def _answer(self, prompt: LabelPrompt, text: str) -> tuple[str, bool | None]:
        """What it said, and the label in it. What it will not answer has none, like what cannot be read."""
        try:
            said = self.asker.ask(*prompt.messages(text))
        except (ModelRefused, ContextTooLong, ModelConfused) as error:
            return f"no answer: {error.message}", None
        return said, read_answer(said, self.need)
