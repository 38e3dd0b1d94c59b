"""What the API answers about classifiers, validated where it enters; as `records`."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from ui.records import Record


class Interval(Record):
    """A rate with its 95 % interval; None where it is none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


class Classifier(Record):
    """`waiting`: texts that wait for a person. `standing`: the version that stands."""

    case_id: str
    name: str
    need: str
    classes: tuple[str, str]
    state: str
    num_texts: int
    num_versions: int
    waiting: int
    opened_at: datetime
    standing: int | None = None
    f1: Interval | None = None


class Cluster(Record):
    sentence: str
    items: tuple[str, ...] = ()


class Version(Record):
    """`worse`: slices that stopped it."""

    number: int
    why: str
    is_taken: bool
    reason: str
    worse: tuple[str, ...] = ()
    f1: Interval | None = None
    accuracy: Interval | None = None
    num_labels: int | None = None
    clusters: tuple[Cluster, ...] = ()


class Agreement(Record):
    """Of two labellers on the texts that both labelled."""

    first: str
    second: str
    num_texts: int
    share: Interval
    kappa: Interval


class WholeClassifier(Record):
    """`attributes`: by which its confusion can be split. `card`: Markdown."""

    classifier: Classifier
    ladder: tuple[Version, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    attributes: tuple[str, ...] = ()
    card: str = ""


class Progress(Record):
    waiting: int
    asked: int
    mine: int


class Question(Record):
    batch: str
    item: str
    text: str
    slices: dict[str, str] = Field(default_factory=dict)


class NextQuestion(Record):
    question: Question | None = None
    progress: Progress


class Cell(Record):
    slice: str
    wanted: str
    said: str
    num_texts: int


class WrongText(Record):
    item: str
    text: str
    probability: float
