"""Labels by source, prompts to the byte, their optimisers, and the sample that never splits near-duplicates."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from needs import documents, lines, need, text

from contracts.errors import BudgetExceeded, EnvironmentFault, UserInputError
from loops.classifiers.groups import near_duplicates, resembling, signatures
from loops.pipelines.component import EvaluationSet
from loops.quantify.documents import Documents, read_documents
from loops.quantify.gepa_optimiser import ByGepa
from loops.quantify.labels import Label, agreements, reference
from loops.quantify.need import Labeller, Need, labellers_of
from loops.quantify.optimiser import ByMistakes, Examples, tune
from loops.quantify.prompts import LabelPrompt, first_prompt, lineage, read_answer, read_prompt
from loops.quantify.sample import sample

HARD = "cash"  # a word that the stand-in for a model reads wrongly until its prompt tells it about such texts


@given(st.text(st.characters(codec="utf-8"), max_size=300))
def test_an_exported_prompt_is_the_used_one_byte_for_byte(words: str) -> None:
    """Line ends, trailing blanks, marks of any kind: nothing is changed, so the hash is the same."""
    import tempfile

    prompt = LabelPrompt(text=words)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "prompt.txt"
        prompt.export(path)
        assert path.read_bytes() == words.encode()
        assert read_prompt(path).sha256 == prompt.sha256
    assert prompt.messages("a document") == (words, "a document")


def test_an_answer_that_names_no_class_or_both_is_no_label() -> None:
    wanted = need()
    assert [read_answer(each, wanted) for each in ("offer", " Letter.\n", "I think:\noffer")] == [True, False, True]
    assert [read_answer(each, wanted) for each in ("", "neither", "offer or letter", "offers")] == [None] * 4


def _judge(prompt: LabelPrompt, texts: Sequence[str]) -> list[bool | None]:
    """Stands for a model that follows notes: it finds offers by one word, and by another one once it was told."""
    known = {"prize"} | ({HARD} if HARD in prompt.text else set())
    return [None if "unreadable" in each else bool(known & set(each.split())) for each in texts]


def _examples(num: int, seed: int) -> Examples:
    rng = np.random.default_rng(seed)
    labels = rng.random(num) < 0.5
    words = ["prize win" if rng.random() < 0.5 else f"{HARD} {HARD}" for _ in range(num)]
    texts = [f"{word} today" if label else "patch of the kernel" for word, label in zip(words, labels, strict=True)]
    return Examples(texts=tuple(f"{each} {number}" for number, each in enumerate(texts)), labels=labels)


def test_the_prompt_is_tuned_by_its_mistakes_and_decided_on_texts_it_never_saw() -> None:
    """Shows R801-5.3 step 3: mistakes in clusters become notes; one stays only where it helps on the fixed set."""
    first, seen, judging = first_prompt(need()), _examples(40, 0), _examples(60, 1)
    on = EvaluationSet(sha256="s", groups=np.arange(60), slices={})
    tuned = tune(first, ByMistakes(need=need()), seen, judging, on, _judge)
    taken = [prompt for prompt, decision in tuned.tried if decision.is_taken]
    assert len(taken) == 1
    assert HARD in tuned.prompt.text
    assert tuned.prompt.parent == first.sha256
    assert lineage([first, *taken], tuned.prompt.sha256) == [first, tuned.prompt]
    again = tune(first, ByMistakes(need=need()), seen, judging, on, _judge)
    assert again.prompt.sha256 == tuned.prompt.sha256
    deaf = tune(first, ByMistakes(need=need()), seen, judging, on, lambda prompt, texts: [False] * len(texts))
    assert deaf.prompt == first
    assert all("not better" in decision.reason for _, decision in deaf.tried)


@pytest.mark.parametrize("limit", [30, 120])  # while the first prompt is judged, and while another one is
def test_where_the_budget_ends_the_prompt_stands_that_stood_by_then(limit: int) -> None:
    on, asked = EvaluationSet(sha256="s", groups=np.arange(60), slices={}), [0]

    def judge(prompt: LabelPrompt, texts: Sequence[str]) -> list[bool | None]:
        asked[0] += len(texts)
        if asked[0] > limit:
            raise BudgetExceeded("the tokens are spent", remedy="more")
        return _judge(prompt, texts)

    tuned = tune(first_prompt(need()), ByMistakes(need=need()), _examples(40, 0), _examples(60, 1), on, judge)
    assert (tuned.stopped, tuned.prompt) == ("the tokens are spent", first_prompt(need()))


def test_gepa_proposes_and_what_is_used_is_what_it_found_to_the_byte() -> None:
    better = f"You label texts.  \n\tAlso texts with {HARD} are offers.\r\nAnswer offer or letter."
    asked: list[str] = []

    def reflect(question: str) -> str:
        asked.append(question)
        return f"```\n{better}\n```"

    seen, judging = _examples(40, 0), _examples(60, 1)
    on = EvaluationSet(sha256="s", groups=np.arange(60), slices={})
    optimiser = ByGepa(need=need(), reflect=reflect, max_labels=150)
    tuned = tune(first_prompt(need()), optimiser, seen, judging, on, _judge)
    assert asked
    assert tuned.prompt.text == better
    (tried,) = tuned.tried
    assert tried[1].is_taken


def test_without_the_extra_it_says_what_to_install() -> None:
    if "gepa" in sys.modules:
        pytest.skip("the extra is installed")
    try:
        import gepa  # noqa: F401
    except ImportError:
        with pytest.raises(EnvironmentFault, match="GEPA is not installed") as error:
            list(ByGepa(need=need(), reflect=str).propose(LabelPrompt(text="x"), _examples(4, 0), _judge))
        assert "[gepa]" in error.value.remedy


def _labels(source: str, said: dict[str, bool], batch: str = "b") -> list[Label]:
    return [Label(item=item, source=source, positive=positive, batch=batch) for item, positive in said.items()]


def test_which_label_counts_and_how_far_labellers_agree() -> None:
    """Shows R801-5.4: agreement with a model is one number, agreement with persons a second one."""
    model = _labels("model:m@1", {f"t{n}": n % 2 == 0 for n in range(40)})
    ada = _labels("person:ada", {f"t{n}": n % 2 == 0 and n > 3 for n in range(20)})
    order = (Labeller.MODEL, Labeller.PERSON)
    assert reference(model + ada, order)["t0"] is True
    assert reference(model + ada, order[::-1])["t0"] is False
    others = _labels("person:bob", {"t0": True}) + _labels("person:eve", {"t0": True})
    assert reference([*ada, *others], order)["t0"] is True
    assert reference([*ada, *_labels("person:ada", {"t0": True}, "check-2")], order)["t0"] is True
    (pair,) = agreements(model + ada, order)
    assert (pair.first, pair.second, pair.num_texts) == (*order, 20)
    assert pair.share.value == pytest.approx(0.9)
    assert pair.share.low < 0.9 < pair.share.high < 1.0
    assert pair.kappa.value == pytest.approx(0.8)
    assert pair.kappa.low < 0.8 < pair.kappa.high


def test_a_check_by_a_person_outweighs_the_model_that_is_the_reference() -> None:
    model, checked = _labels("model:m@1", {"t0": True}), _labels("person:ada", {"t0": False}, "check-3")
    assert reference([*model, *checked], (Labeller.MODEL, Labeller.PERSON))["t0"] is False


def test_near_duplicates_are_never_in_two_of_the_sets(tmp_path: Path) -> None:
    texts = documents(tmp_path, lines(400))
    groups = near_duplicates(texts.texts)
    found = sample(need(), groups, np.arange(400))
    parts = [set(groups[part].tolist()) for part in (found.evaluation, found.held_out, found.pool)]
    assert [len(part & other) for n, part in enumerate(parts) for other in parts[n + 1 :]] == [0, 0, 0]
    assert sorted(np.concatenate([found.evaluation, found.held_out, found.pool]).tolist()) == list(range(400))
    assert found.evaluation.size >= 80
    with pytest.raises(UserInputError, match="too few"):
        sample(need(evaluation_size=300), groups, np.arange(400))


def test_what_taught_a_deployed_version_is_known_again_by_its_signature(tmp_path: Path) -> None:
    texts, other = documents(tmp_path, lines(200)).texts, documents(tmp_path, lines(100, seed=7)).texts
    known = signatures(texts[:100])
    found = resembling(known, signatures(texts))
    groups = near_duplicates(texts)
    assert found[:100].all()
    assert (found[100:] == np.isin(groups[100:], groups[:100])).all()
    assert not resembling(known, signatures(other)).any()
    assert not resembling(signatures([]), signatures(other)).any()


def test_equal_texts_without_names_are_numbered_and_the_hash_covers_labels_and_slices(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"

    def read(*rows: str) -> Documents:
        path.write_text("\n".join(rows))
        return read_documents(path)

    twice = read('{"text": "same"}', '{"text": "same"}', '{"text": "other"}')
    assert twice.ids[1] == f"{twice.ids[0]}-2"
    rows = ['{"id": "a", "text": "x", "label": "yes", "s": "1"}', '{"id": "b", "text": "y", "label": "no", "s": "2"}']
    first = read(*rows)
    relabelled, resliced = read(rows[0].replace("yes", "no"), rows[1]), read(rows[0], rows[1].replace('"2"', '"3"'))
    assert len({first.sha256, relabelled.sha256, resliced.sha256}) == 3
    assert first.texts_sha256 == relabelled.texts_sha256 == resliced.texts_sha256


def test_documents_are_read_with_slices_and_labels_and_mistakes_are_named(tmp_path: Path) -> None:
    texts = documents(tmp_path, lines(30))
    assert set(texts.slices) == {"source", "length"}
    texts.write(tmp_path / "copy.jsonl")
    copy = read_documents(tmp_path / "copy.jsonl")
    assert (copy.sha256, dict(copy.labels)) == (texts.sha256, dict(texts.labels))
    assert copy.slices == texts.slices
    for content, words in (
        ('{"text": "a", "id": "x"}\n{"text": ""}', "line 2: text"),
        ('{"text": "a", "id": "x"}\n{"text": "b", "id": "x"}', "two texts"),
        ("nonsense", "line 1"),
        ("", "no text"),
    ):
        (tmp_path / "bad.jsonl").write_text(content)
        with pytest.raises(UserInputError, match=words):
            read_documents(tmp_path / "bad.jsonl")
    (tmp_path / "labels.jsonl").write_text('{"id": "nobody", "label": "offer"}')
    with pytest.raises(UserInputError, match="'nobody'"):
        read_documents(tmp_path / "copy.jsonl", tmp_path / "labels.jsonl")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "No Name"}, "cannot be the name"),
        ({"need": " "}, "need is empty"),
        ({"negative": "offer"}, "two different classes"),
        ({"labellers": ()}, "nobody labels"),
        ({"cost_false_negative": 0.0}, "costs more than nothing"),
        ({"evaluation_size": 5}, "fewer than 10"),
    ],
)
def test_a_need_that_cannot_be_worked_on_is_refused_with_its_field(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UserInputError, match=words):
        need(**changes)
    assert Need.load(need().dump()) == need()
    with pytest.raises(UserInputError):
        labellers_of(["somebody"])
    assert text(offer=True, rng=np.random.default_rng(0)) != text(offer=False, rng=np.random.default_rng(0))
