"""Does what one rank shows go with its place (machine, process), or stay with the rank (its data, its code)?

Two ranks exchange places and everything else stays as it was. What follows the place is hardware; two innocent ranks
that exchange places are the placebo (R801-3.4: hardware and rank are suspects too).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from contracts.enums import CauseKind, DiagnosticKind, Verdict
from contracts.events import Scalar
from contracts.evidence import EvidenceRef
from contracts.names import SeriesName
from loops.debug.facts import Decision, Experiment, Facts, Seat, Seen, cannot, unseen
from loops.debug.measure import Probe
from loops.debug.suspects import Factor, Scene

PLACES = "parallel.places"
_INNOCENT = 3  # ranks that an exchange and its placebo need beside the one that departs


def seat_of(scene: Scene, probe: Probe, departing: Sequence[str]) -> Seat | None:
    """The place of the rank that a probe reads; None when its ranks are no processes that could exchange places.

    `departing`: series of the anomaly; their ranks take no part as innocent ones.
    """
    rank = SeriesName.parse(probe.series[0]).rank if len(probe.series) == 1 else None
    declared = scene.segment.declared
    size = declared.get("parallel.dp_size")
    is_apart = bool(declared.get("parallel.processes")) and declared.get("parallel.cp_size") == 1
    if rank is None or not is_apart or not isinstance(size, int):
        return None
    suspected = {SeriesName.parse(name).rank for name in departing}
    innocent = [other for other in (*range(rank + 1, size), *range(rank)) if other not in suspected]
    if len(innocent) < _INNOCENT:
        return None
    place = _ranks(declared.get(PLACES), size).index(rank)
    host = scene.segment.environment.get(f"host.place_{place}")
    where = f"process {place + 1} of {size}" + (f" on {host}" if host else "")
    return Seat(
        key=f"place:{rank}",
        title=f"the place of rank {rank} ({where})",
        rank=rank,
        partner=innocent[0],
        bystanders=(innocent[1], innocent[2]),
        size=size,
    )


def place_factor(scene: Scene, seat: Seat) -> Factor:
    """The place as a suspect beside the changes."""
    evidence = EvidenceRef(kind="config", id=f"{scene.run_id}/parallel.processes", slice=str(scene.segment.number))
    return Factor(
        key=seat.key,
        cause_kind=CauseKind.HARDWARE,
        title=seat.title,
        evidence=(evidence,),
        testable=False,
        rank=seat.rank,
    )


def exchanged(scene: Scene, seat: Seat, swap: tuple[int, int]) -> dict[str, Scalar]:
    """Overrides that put two ranks into each other's place."""
    ranks = _ranks(scene.segment.declared.get(PLACES), seat.size)
    one, two = swap
    other = {one: two, two: one}
    return {PLACES: ",".join(str(other.get(rank, rank)) for rank in ranks)}


def on_rank(probe: Probe, rank: int) -> Probe:
    """The same probe on another rank, whose peers are all ranks but that one."""
    every = (*probe.series, *probe.peers)
    (name,) = (each for each in every if SeriesName.parse(each).rank == rank)
    return replace(probe, series=(name,), peers=tuple(each for each in every if each != name))


def swap_of(facts: Facts, seat: Seat) -> Experiment:
    """The exchange that tells the place from the rank."""
    return Experiment(
        kind=DiagnosticKind.SWAP,
        label=f"ranks {seat.rank} and {seat.partner} in each other's place",
        on=facts.everything,
        suspects=(seat.key,),
        swap=(seat.rank, seat.partner),
    )


def placebo_of(facts: Facts, seat: Seat) -> Experiment:
    """The exchange of two others."""
    one, two = seat.bystanders
    return Experiment(
        kind=DiagnosticKind.PLACEBO,
        label=f"ranks {one} and {two} in each other's place",
        on=facts.everything,
        swap=seat.bystanders,
    )


def by_place(facts: Facts, repeats: Sequence[Experiment]) -> tuple[Experiment, ...] | Decision | None:
    """Re-runs or a decision on the place; None when it is not in question, or what is seen stays with the rank.

    One exchange tells the place from every change at once, so it goes with the first batch.
    """
    seat = facts.seat
    if seat is None:
        return None
    replay = Experiment(kind=DiagnosticKind.REPLAY, label="the same code again", on=facts.everything)
    swap = swap_of(facts, seat)
    if missing := unseen(facts, [replay, swap]):
        return missing
    if facts.seen(swap.identity) is not Seen.ABSENT or facts.seen(replay.identity) is not Seen.PRESENT:
        return None
    control = Experiment(kind=DiagnosticKind.CONTROL, label="the last good code", on=facts.control)
    if missing := unseen(facts, [control, placebo_of(facts, seat), *repeats]):
        return missing
    moved = f"what rank {seat.rank} shows goes to rank {seat.partner} when the two exchange places"
    if facts.seen(control.identity) is not Seen.PRESENT:
        return cannot(f"{moved}, but the last good code does not show it there: both seem to be needed")
    if any(facts.seen(each.identity) is not Seen.PRESENT for each in (placebo_of(facts, seat), *repeats)):
        return cannot(f"{moved}, but it is not there in each of the other re-runs")
    return Decision(
        verdict=Verdict.PROVEN,
        reason=moved,
        cause_kind=CauseKind.HARDWARE,
        cause=(seat.key,),
        baseline=facts.control,
    )


def stays(facts: Facts) -> str:
    """What the exchange showed of the place when it did not go with it; "" when nothing was exchanged."""
    seat = facts.seat
    if seat is None or facts.seen(swap_of(facts, seat).identity) is not Seen.PRESENT:
        return ""
    return f"what rank {seat.rank} shows stays with it when it exchanges places with rank {seat.partner}"


def _ranks(places: Scalar, size: int) -> list[int]:
    """The rank in each place."""
    return [int(rank) for rank in str(places).split(",")] if places else list(range(size))
