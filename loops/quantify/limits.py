"""What a classifier's case may take: of one piece of work, and of the whole case by its need."""

from __future__ import annotations

from context_store.records import Amount
from loops.core import WALL_PER_CPU, Limits
from loops.quantify import plan
from loops.quantify.casebook import EVALUATION, TUNING, CaseBook
from loops.quantify.need import Need
from loops.quantify.optimiser import MAX_PROMPTS
from loops.quantify.plan import Step

# Upper estimates; what is not used goes back. A process takes a few seconds to begin; the dearest training (`taught`)
# took 0.002 to 0.007 CPU seconds a text of 1,000 characters, scoring less than 0.0001.
_CPU_S, _CPU_S_A_TEXT = 60.0, 0.01
_CPU_S_A_LABEL = 0.3  # of a model; ten times as many seconds may pass
_PIECES, _PIECES_A_VERSION = 8, 3  # sample, tune, batches of the sample, final; ask, label, develop


def price(book: CaseBook, step: Step) -> Amount:
    """What is reserved for one piece of work."""
    cpu_s = _of_a_piece(book.need_body()["num_texts"])
    if step.work in (plan.TUNE, plan.LABEL):
        cpu_s += _CPU_S_A_LABEL * _num_asked(book, step)
    return Amount(cpu_s=cpu_s)


def of_case(book: CaseBook, models: Amount) -> Limits:
    """`models`: tokens and money for the model that labels."""
    need = book.need()
    pieces = _PIECES + _PIECES_A_VERSION * (need.max_versions + 1)
    cpu_s = pieces * _of_a_piece(book.need_body()["num_texts"]) + _CPU_S_A_LABEL * _most_labels(need)
    return Limits(
        max_rounds=pieces, wall_s=WALL_PER_CPU * cpu_s, cpu_s=cpu_s, reruns=0, tokens=models.tokens, usd=models.usd
    )


def _of_a_piece(num_texts: int) -> float:
    return _CPU_S + _CPU_S_A_TEXT * num_texts


def _num_asked(book: CaseBook, step: Step) -> int:
    """Upper estimate of the texts that a model labels in a step."""
    batches = book.batches()
    if step.work == plan.LABEL:
        return len(batches[step.arguments["batch"]]["items"])
    return MAX_PROMPTS * sum(len(batches[name]["items"]) for name in (EVALUATION, TUNING) if name in batches)


def _most_labels(need: Need) -> int:
    judging = 2 * need.evaluation_size  # with what is held out, and whole groups
    return (MAX_PROMPTS + 1) * (judging + need.per_round) + need.label_budget
