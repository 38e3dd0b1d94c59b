"""Configuration along a run: what was said, what was really used, what changed, and what did not scale.

A place is `RUN`, `RUN#SEGMENT`, `RUN@STEP` or `RUN#SEGMENT@STEP`: the newest segment without one, its end without a
step; with a step and no segment, the one that counts there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from context_store.database import Database
from context_store.lineage import load_lineage
from context_store.models import ConfigValueRow, SegmentRow
from context_store.records import ConfigChange
from context_store.runs import diff_config, load_config, same_value
from context_store.scaling import NotScaled, not_scaled
from contracts.errors import NotFound, UserInputError
from contracts.events import Scalar

_PLACE = re.compile(r"^(?P<run>[^#@]+)(?:#(?P<segment>\d+))?(?:@(?P<step>\d+))?$")
DECLARED, EFFECTIVE = "declared", "effective"


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A field that was declared as one value and used as another, from `step` on."""

    key: str
    declared: Scalar
    effective: Scalar
    step: int


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Of `num_declared` fields, `num_recorded` have a value that was really used; of the others nothing is known."""

    mismatches: tuple[Mismatch, ...]
    num_declared: int
    num_recorded: int


@dataclass(frozen=True, kw_only=True)
class StepChange:
    """A field that changed inside a run's canonical history. `source`: declared or effective."""

    segment: int
    step: int
    source: str
    change: ConfigChange


@dataclass(frozen=True, kw_only=True)
class Place:
    run_id: str
    segment: int
    step: int | None


class ConfigFacts:
    """`store.config`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def place(self, text: str) -> Place:
        """Which segment a place means. Raises UserInputError for another form, NotFound for what is not there."""
        with self._database.begin() as connection:
            return _place(connection, text)

    def at(self, place: str) -> dict[str, Scalar]:
        """What was in force: effective values over declared ones. Raises as `place`."""
        with self._database.snapshot() as connection:
            return _in_force(connection, _place(connection, place))

    def diff(self, a: str, b: str) -> tuple[ConfigChange, ...]:
        """Fields by which place `b` differs from place `a`: two runs, two segments, or two steps of one run."""
        with self._database.snapshot() as connection:
            before, after = (_in_force(connection, _place(connection, each)) for each in (a, b))
        return diff_config(before, after)

    def changes(self, run_id: str) -> list[StepChange]:
        """What changed within a run, in order of its canonical history: between segments, and inside them."""
        with self._database.snapshot() as connection:
            _place(connection, run_id)
            lineage = load_lineage(connection, run_id)
            rows = connection.execute(_steps_of(run_id)).all()
            found: list[StepChange] = []
            states: dict[str, dict[str, Scalar]] = {DECLARED: {}, EFFECTIVE: {}}
            for segment, step, source in rows:
                if not lineage.counts(segment, step):
                    continue
                before = states[source]
                after = load_config(connection, run_id, segment, source, step)
                if source == EFFECTIVE:
                    after = {**before, **after}
                if before:
                    changes = diff_config(before, after)
                    if source == EFFECTIVE:
                        changes = tuple(each for each in changes if each.status == "changed")
                    found += [StepChange(segment=segment, step=step, source=source, change=each) for each in changes]
                states[source] = after
        return found

    def usage(self, place: str) -> Usage:
        """Declared fields against effective values: those that differ, by name, and how many could be compared."""
        with self._database.snapshot() as connection:
            where = _place(connection, place)
            declared = load_config(connection, where.run_id, where.segment, DECLARED)
            effective = load_config(connection, where.run_id, where.segment, EFFECTIVE, where.step)
            since = {row.key: row.step for row in connection.execute(_since(where))}
        both = sorted(declared.keys() & effective.keys())
        differing = tuple(
            Mismatch(key=key, declared=declared[key], effective=effective[key], step=since[key])
            for key in both
            if not same_value(declared[key], effective[key])
        )
        return Usage(mismatches=differing, num_declared=len(declared), num_recorded=len(both))

    def not_scaled(self, run: str, references: Sequence[str]) -> list[NotScaled]:
        """Which values of a run did not scale with the sizes of its model (context_store.scaling).

        `references`: places of runs of other sizes, the nearest last.
        """
        return not_scaled([self.at(each) for each in references], self.at(run))


def _place(connection: sa.Connection, text: str) -> Place:
    match = _PLACE.match(text)
    if match is None:
        raise UserInputError(f"'{text}' is no place in a run", remedy="write RUN, RUN#SEGMENT, RUN@STEP or both")
    run_id = match["run"]
    step = None if match["step"] is None else int(match["step"])
    query = sa.select(SegmentRow.number, SegmentRow.start_step).where(SegmentRow.run_id == run_id)
    starts = dict(connection.execute(query.order_by(SegmentRow.number)).tuples().all())
    if match["segment"] is not None:
        chosen = [number for number in starts if number == int(match["segment"])]
    elif step is not None:
        lineage = load_lineage(connection, run_id)
        chosen = [number for number, start in starts.items() if start <= step and lineage.counts(number, step)]
    else:
        chosen = list(starts)
    if not chosen:
        numbers = ", ".join(map(str, starts)) or "none"
        raise NotFound(f"nothing is stored of '{text}'", remedy=f"`lathe runs` lists the runs; segments: {numbers}")
    return Place(run_id=run_id, segment=chosen[-1], step=step)


def _in_force(connection: sa.Connection, place: Place) -> dict[str, Scalar]:
    declared = load_config(connection, place.run_id, place.segment, DECLARED)
    return declared | load_config(connection, place.run_id, place.segment, EFFECTIVE, place.step)


def _steps_of(run_id: str) -> sa.Select[int, int, str]:
    """(segment, step, source) at which something was set, in order."""
    columns = (ConfigValueRow.segment, ConfigValueRow.step, ConfigValueRow.source)
    wanted = ConfigValueRow.source.in_((DECLARED, EFFECTIVE))
    return sa.select(*columns).where(ConfigValueRow.run_id == run_id, wanted).distinct().order_by(*columns)


def _since(place: Place) -> sa.Select[str, int]:
    """(key, step of its newest effective value)."""
    query = (
        sa.select(ConfigValueRow.key, sa.func.max(ConfigValueRow.step).label("step"))
        .where(ConfigValueRow.run_id == place.run_id, ConfigValueRow.segment == place.segment)
        .where(ConfigValueRow.source == EFFECTIVE)
        .group_by(ConfigValueRow.key)
    )
    return query if place.step is None else query.where(ConfigValueRow.step <= place.step)
