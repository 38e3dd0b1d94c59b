"""Detectors: one file each, pure functions of a RunView. A new one is a file with `detect` and a line here."""

from loops.debug.detectors import (
    data_order,
    eval_break,
    few_points,
    fork_departure,
    invariant,
    level_shift,
    masked,
    non_finite,
    over_balance,
    over_fitting,
    peer_departure,
    rank_departure,
    resume,
    spike,
    sudden_gain,
    throughput,
    throughput_wear,
    trend,
)
from loops.debug.finding import Detector

DETECTORS: tuple[Detector, ...] = (
    non_finite.detect,
    masked.detect,
    data_order.detect,
    resume.detect,
    rank_departure.detect,
    peer_departure.detect,
    over_balance.detect,
    trend.detect,
    level_shift.detect,
    spike.detect,
    few_points.detect,
    fork_departure.detect,
    sudden_gain.detect,
    over_fitting.detect,
    eval_break.detect,
    invariant.detect,
    throughput.detect,
    throughput_wear.detect,
)
