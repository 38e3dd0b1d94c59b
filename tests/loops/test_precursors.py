"""What moved first, said only when it is certain."""

from __future__ import annotations

import pytest

from context_store.records import Anomaly
from loops.debug.precursors import leads


def anomaly(series: str, onset: tuple[int, int]) -> Anomaly:
    return Anomaly(
        run_id="run", kind="k", series=(series,), onset=onset, severity=0.5, statement="", evidence=(), probe={}
    )


def test_the_internal_statistic_that_moved_first_leads() -> None:
    """Shows R801-3.2: internal metrics move before the ones that people watch, with the lag as an interval."""
    seen = [anomaly("lm_loss", (150, 160)), anomaly("grad_norm", (140, 145)), anomaly("max_vio/layers.2", (121, 130))]
    (lead,) = leads(seen)
    assert lead.sentence == "max_vio/layers.2 moved 20 to 39 steps before lm_loss"


@pytest.mark.parametrize(
    "seen",
    [
        [anomaly("lm_loss", (130, 160)), anomaly("max_vio", (121, 130))],
        [anomaly("lm_loss", (100, 101)), anomaly("max_vio", (121, 130))],
        [anomaly("max_vio", (121, 130))],
        [anomaly("loss_scale", (150, 160)), anomaly("max_vio", (121, 130))],
        [anomaly("lm_loss", (100, 101))],
        [],
    ],
)
def test_a_lead_that_could_be_none_is_not_claimed(seen: list[Anomaly]) -> None:
    assert leads(seen) == []
