"""Detectors: one file each, pure functions of a RunView. A new one is a file with `detect` and a line here."""

from loops.debug.detectors import (
    data_order,
    invariant,
    level_shift,
    non_finite,
    over_balance,
    peer_departure,
    spike,
    throughput,
    trend,
)
from loops.debug.finding import Detector

DETECTORS: tuple[Detector, ...] = (
    non_finite.detect,
    data_order.detect,
    peer_departure.detect,
    over_balance.detect,
    trend.detect,
    level_shift.detect,
    spike.detect,
    invariant.detect,
    throughput.detect,
)
