"""The model card of a classifier, in Markdown, from what was written down in its case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loops.quantify.casebook import CaseBook
from loops.quantify.need import Labeller

Json = Mapping[str, Any]


def card(book: CaseBook, deployed: str = "") -> str:
    """Of the version that stands, and of the prompt where a model labels; `deployed`: which of them (`model`, `prompt`)
    this card lies beside. Scores are agreement with the reference labels, which need not be the truth."""
    need, body, standing = book.need(), book.need_body(), book.standing()
    lines = [f"# Classifier {need.name}", "", need.need.strip(), ""]
    lines += [
        f"Finds **{need.positive}** among texts; everything else is **{need.negative}**. Level {need.level.value}."
    ]
    lines += [f"Reference labels: {_labellers(need.labellers[0])}. Documents {body['num_texts']}, "
              f"sha256 `{body['documents_sha256'][:16]}`."]  # fmt: skip
    if deployed:
        lines += ["", f"Deployed here: {'the labelling prompt' if deployed == 'prompt' else 'the classifier'}."]
    if standing is None:
        return "\n".join([*lines, "", "No version was taken."]) + "\n"
    lines += ["", *_worth(standing, book.final()), "", *_how(standing), "", *_where(standing)]
    lines += ["", *_history(book), "", *_limits(standing, book.final()), *_prompt(book), *_drift(book)]
    return "\n".join(lines) + "\n"


def _labellers(labeller: Labeller) -> str:
    words = {Labeller.GIVEN: "given with the texts", Labeller.PERSON: "persons", Labeller.MODEL: "a language model"}
    return words[labeller]


def _worth(standing: Json, final: Json | None) -> Iterator[str]:
    yield f"## Version {standing['number']}: agreement with the reference"
    yield ""
    yield "| texts | n | groups | F1 (95 %) | accuracy (95 %) | precision | recall | calibration error |"
    yield "|---|---|---|---|---|---|---|---|"
    yield _row("evaluation", standing["evaluation"])
    if final is None:
        return
    if final["held_out"] is not None:
        yield _row("held out, looked at once", final["held_out"])
    for pair in final["agreements"]:
        yield (f"\nLabellers {pair['first']} and {pair['second']} agree on {_interval(pair['share'])} of "
               f"{pair['num_texts']} texts, kappa {_interval(pair['kappa'])}.")  # fmt: skip
    if final["persons"] is not None:
        persons = final["persons"]
        yield f"\nAgreement with persons on {persons['num_texts']} texts: {_interval(persons['share'])}."
    if final["prompt"] is not None:
        yield f"\n{prompt_sentence(final['prompt'])}"


def prompt_sentence(option: Json) -> str:
    """Option A beside the compact classifier."""
    if option["is_reference"]:
        return "The labelling prompt is the reference itself, so its own agreement says nothing."
    unreadable = f"; {option['num_unreadable']} answers could not be read" if option["num_unreadable"] else ""
    reason = option["decision"]["reason"]
    return f"Labelling prompt instead: F1 {_interval(option['evaluation']['f1'])}, {reason}{unreadable}."


def _row(name: str, part: Json) -> str:
    cells = [name, part["num_texts"], part["num_groups"], _interval(part["f1"]), _interval(part["accuracy"])]
    cells += [_number(part[each]) for each in ("precision", "recall", "calibration_error")]
    return "| " + " | ".join(str(each) for each in cells) + " |"


def _how(standing: Json) -> Iterator[str]:
    yield "## How it was made"
    yield ""
    recipe = {key: value for key, value in standing["recipe"].items() if key != "rules"}
    if "num_labels" in standing:
        yield f"- {standing['num_labels']} labels, {standing['num_positive']} positive; sha256 "
        yield f"  `{standing['labels_sha256'][:16]}`; near-duplicates of a text never judge what it taught"
    if not standing["model_sha256"]:
        yield f"- the labelling prompt that is deployed; sha256 `{standing['sha256'][:16]}`"
        return
    yield f"- linear classifier on hashed words, {recipe}; model sha256 `{standing['model_sha256'][:16]}`"
    yield f"- positive from a calibrated probability of {standing['threshold']:.4f}, where mistakes cost least"
    for words, positive in standing["recipe"]["rules"]:
        yield f"- rule: {' and '.join(words)} is {'positive' if positive else 'negative'}"
    yield f"- {standing['docs_per_s']:.0f} texts a second of at most 1,000 characters, one process"


def _where(standing: Json) -> Iterator[str]:
    yield "## Where it is right"
    yield ""
    yield "| slice | n | right (95 %) |"
    yield "|---|---|---|"
    for each in standing["slices"]:
        yield f"| {_cell(each['name'])} | {each['num_texts']} | {_interval(each)} |"
    if standing["clusters"]:
        yield ""
        yield "Mistakes on the evaluation set:"
        yield from (f"- {each['sentence']}" for each in standing["clusters"])


def _history(book: CaseBook) -> Iterator[str]:
    yield "## Versions"
    yield ""
    yield "| version | change | F1 (95 %) | taken | why |"
    yield "|---|---|---|---|---|"
    for each in book.versions():
        f1 = "-" if each.get("error") else _interval(each["evaluation"]["f1"])
        decision = each["decision"]
        taken = "yes" if decision["is_taken"] else "no"
        why, reason = _cell(each["revision"]["why"]), _cell(decision["reason"])
        yield f"| {each['number']} | {why} | {f1} | {taken} | {reason} |"


def _limits(standing: Json, final: Json | None) -> Iterator[str]:
    yield "## What it does not say"
    yield ""
    blind = standing["decision"]["blind"]
    yield "- Texts unlike the documents above: check drift (`lathe classifier drift`) before it is believed there."
    if blind:
        yield f"- Too few texts to notice a loss: {', '.join(blind)}."
    held_out = None if final is None else final["held_out"]
    gap = None if held_out is None else _gap(standing["evaluation"]["f1"], held_out["f1"])
    if gap is not None and gap > 0.05:
        yield f"- F1 is {gap:.3f} lower on what was held out: the versions were tuned to the evaluation set."


def _prompt(book: CaseBook) -> Iterator[str]:
    """The prompt that stands, whole, with the model it was measured with."""
    final = book.final()
    option = None if final is None else final["prompt"]
    if option is None:
        return
    text = next(str(each["text"]) for each in book.prompts() if each["sha256"] == option["sha256"])
    model = option.get("model", "")
    yield ""
    yield "## Labelling prompt"
    yield ""
    yield f"System message for {model or 'the language model'}, sha256 `{option['sha256'][:16]}`:"
    yield ""
    yield from (f"    {line}" for line in text.split("\n"))
    if not option["is_reference"]:
        yield ""
        yield "| texts | n | groups | F1 (95 %) | accuracy (95 %) | precision | recall | calibration error |"
        yield "|---|---|---|---|---|---|---|---|"
        parts = (("evaluation", option["evaluation"]), ("held out, looked at once", option.get("held_out")))
        yield from (_row(name, part) for name, part in parts if part is not None)


def _drift(book: CaseBook) -> Iterator[str]:
    if looked := book.drifts():
        yield ""
        yield "## Drift"
        yield ""
        yield from (f"- {each['sentence']}" for each in looked)


def _gap(one: Json, other: Json) -> float | None:
    if one["value"] is None or other["value"] is None:
        return None
    return float(one["value"]) - float(other["value"])


def _interval(score: Json) -> str:
    if score["value"] is None:
        return "-"
    return f"{score['value']:.3f} ({_number(score['low'])} to {_number(score['high'])})"


def _cell(text: str) -> str:
    """Of a table: one line, no bars."""
    return " ".join(str(text).replace("|", "/").split())


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
