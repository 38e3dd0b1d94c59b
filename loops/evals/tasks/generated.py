"""Generated questions with one right answer: arithmetic, logic, strings, Python expressions, instructions.

A family makes a question from a generator of random numbers. Test items, solved examples and SFT data come from other
seeds, and none of the latter two has the question of a test item.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from loops.evals.task import Item, Task

VERSION = 1
NUM_CHOICES = 4
NUM_EXAMPLES = 8
_CONSONANTS, _VOWELS = "bcdfghklmnprstvz", "aeiou"
_NAMES = ("Ann", "Bob", "Cid", "Dan", "Eve", "Fay", "Gus", "Hal", "Ida", "Jim")


@dataclass(frozen=True, kw_only=True)
class Question:
    """`wrong`: other answers a careless reader may give; more than three are cut."""

    text: str
    answer: str
    wrong: tuple[str, ...]
    working: str = ""


Family = Callable[[random.Random], Question]


def _add(rng: random.Random) -> Question:
    a, b = rng.randint(2, 40), rng.randint(2, 40)
    return _number(f"What is {a} + {b}?", a + b, rng, f"{a} plus {b} makes {a + b}.")


def _subtract(rng: random.Random) -> Question:
    a, b = sorted((rng.randint(2, 60), rng.randint(2, 60)), reverse=True)
    return _number(f"What is {a} - {b}?", a - b, rng, f"{a} minus {b} leaves {a - b}.")


def _larger(rng: random.Random) -> Question:
    numbers = rng.sample(range(1, 100), NUM_CHOICES)
    best = max(numbers)
    text = f"Which is the largest: {', '.join(map(str, numbers))}?"
    return Question(text=text, answer=str(best), wrong=tuple(str(n) for n in numbers if n != best))


def _sequence(rng: random.Random) -> Question:
    start, step = rng.randint(1, 20), rng.randint(2, 9)
    shown = [start + step * n for n in range(4)]
    text = f"What comes next: {', '.join(map(str, shown))}?"
    return _number(text, start + 4 * step, rng, f"Each number is {step} more than the one before.")


def _order(rng: random.Random) -> Question:
    a, b, c, d = rng.sample(_NAMES, 4)
    facts = [f"{a} is taller than {b}.", f"{b} is taller than {c}.", f"{c} is taller than {d}."]
    rng.shuffle(facts)
    is_tallest = rng.random() < 0.5
    answer = a if is_tallest else d
    text = f"{' '.join(facts)} Who is {'tallest' if is_tallest else 'shortest'}?"
    return Question(text=text, answer=answer, wrong=tuple(n for n in (a, b, c, d) if n != answer))


def _boolean(rng: random.Random) -> Question:
    """`and` binds more tightly than `or`."""
    parts = [[rng.random() < 0.5]]
    for _ in range(3):
        value = rng.random() < 0.5
        if rng.random() < 0.5:
            parts[-1].append(value)
        else:
            parts.append([value])
    text = " or ".join(" and ".join(map(str, part)) for part in parts)
    answer = any(map(all, parts))
    return Question(text=f"Is this true or false: {text}?", answer=str(answer), wrong=(str(not answer),))


def _reverse(rng: random.Random) -> Question:
    word = _word(rng)
    return _text(f"Write the word {word} backwards.", word[::-1], {_shuffled(word, rng) for _ in range(8)}, rng)


def _last_letter(rng: random.Random) -> Question:
    word = _word(rng)
    others = {letter for letter in word + "aeiou" if letter != word[-1]}
    return _text(f"What is the last letter of {word}?", word[-1], others, rng)


def _length(rng: random.Random) -> Question:
    word = "".join(rng.choice("abcdefgh") for _ in range(rng.randint(2, 9)))
    return _number(f'What is len("{word}")?', len(word), rng, "")


def _index(rng: random.Random) -> Question:
    word, place = _word(rng), rng.randint(0, 3)
    others = {letter for letter in word + "xyz" if letter != word[place]}
    return _text(f'What is "{word}"[{place}]?', word[place], others, rng)


def _upper(rng: random.Random) -> Question:
    word = _word(rng)
    return _text(f"Write {word} in capital letters.", word.upper(), {_word(rng).upper() for _ in range(6)}, rng)


def _repeat(rng: random.Random) -> Question:
    word, times = _word(rng), rng.randint(2, 4)
    others = {" ".join([word] * n) for n in (1, 2, 3, 4, 5) if n != times}
    return _text(f"Repeat the word {word} {times} times.", " ".join([word] * times), others, rng)


FAMILIES: Mapping[str, Mapping[str, Family]] = {
    "math": {"add": _add, "subtract": _subtract, "larger": _larger, "sequence": _sequence},
    "science": {"order": _order, "boolean": _boolean},
    "code": {"reverse": _reverse, "last_letter": _last_letter, "length": _length, "index": _index},
    "instruction": {"upper": _upper, "repeat": _repeat},
}


def task(group: str, name: str, num_items: int, seed: int = 0) -> Task:
    """Distinct questions of one family."""
    drawn = _distinct(FAMILIES[group][name], num_items + NUM_EXAMPLES, random.Random(f"{name} {seed}"))
    items = tuple(_item(f"{name}-{n}", question, seed) for n, question in enumerate(drawn))
    return Task(
        name=f"generated_{name}",
        version=VERSION,
        group=group,
        items=items[NUM_EXAMPLES:],
        examples=items[:NUM_EXAMPLES],
        source="generated",
        licence="Apache-2.0",
        settings={"seed": seed},
    )


def tasks(num_items: int, seed: int = 0) -> list[Task]:
    """Every family."""
    return [task(group, name, num_items, seed) for group, families in FAMILIES.items() for name in families]


def stream(group: str, seed: int, avoid: set[str]) -> Iterator[Question]:
    """Questions of a group's families in turn, without end and without those in `avoid`."""
    rng = random.Random(f"{group} stream {seed}")
    families = list(FAMILIES[group].values())
    while True:
        for family in families:
            question = family(rng)
            if question.text not in avoid:
                yield question


def _distinct(family: Family, count: int, rng: random.Random) -> list[Question]:
    """As many distinct ones as there are, up to `count`."""
    found: dict[str, Question] = {}
    for _ in range(50 * count):
        question = family(rng)
        found.setdefault(question.text, question)
        if len(found) == count:
            break
    return list(found.values())


def _item(name: str, question: Question, seed: int) -> Item:
    rng = random.Random(f"{name} {seed} {question.text}")
    choices = [question.answer, *question.wrong[: NUM_CHOICES - 1]]
    rng.shuffle(choices)
    return Item(
        id=name, question=question.text, answer=question.answer, choices=tuple(choices), working=question.working
    )


def _number(text: str, answer: int, rng: random.Random, working: str) -> Question:
    near = {answer + delta for delta in (-10, -2, -1, 1, 2, 10) if answer + delta >= 0}
    return Question(text=text, answer=str(answer), wrong=tuple(map(str, rng.sample(sorted(near), 3))), working=working)


def _text(text: str, answer: str, others: set[str], rng: random.Random) -> Question:
    wrong = sorted(others - {answer})
    rng.shuffle(wrong)
    return Question(text=text, answer=answer, wrong=tuple(wrong[:3]))


def _word(rng: random.Random) -> str:
    """Two or three syllables, so that there are more than any training sees."""
    return "".join(rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(rng.choice((2, 3))))


def _shuffled(word: str, rng: random.Random) -> str:
    return "".join(rng.sample(word, len(word)))
