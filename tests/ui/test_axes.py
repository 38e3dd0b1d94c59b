"""Every axis says what it measures and in which unit, for everything that a training writes."""

from __future__ import annotations

import itertools

from contracts.events import Scalar
from trainer import Recipe, TrainConfig
from trainer.corpus import load_corpus
from trainer.training import Training
from ui.case import reruns
from ui.components import series_plot, small_multiples, units
from ui.palette import LIGHT
from ui.records import Diagnostic, Series

_EVERYTHING: dict[str, Scalar] = {
    "model.num_layers": 2, "model.d_model": 16, "model.num_heads": 2, "model.num_kv_heads": 1, "model.head_dim": 8,
    "moe.num_experts": 4, "moe.d_expert": 8, "moe.choice_bias": True, "mtp.num_modules": 1, "data.batch_size": 8,
    "data.seq_len": 48, "data.corpus_bytes": 40_000, "data.documents": "packed", "parallel.dp_size": 2,
    "numerics.on_nonfinite": "skip", "diagnostics.detail_every": 1,
}  # fmt: skip
_AT_LEAST = {
    "attention_imbalance", "choice_bias", "mixture_drift", "mtp_loss", "padding_share", "router_prob", "skipped_update",
}  # fmt: skip


def test_everything_that_a_step_writes_has_a_quantity_with_its_unit() -> None:
    config = TrainConfig().with_overrides(_EVERYTHING)
    clock = itertools.count(0.0, 0.5).__next__
    values = Training(Recipe(config=config), load_corpus(40_000), None, clock).advance().values
    statistics = {name.partition("/")[0] for name in values}
    assert statistics >= _AT_LEAST
    for statistic in statistics:
        title = units.axis_title(statistic)
        assert title != statistic
        assert title.endswith(")"), title


def test_small_multiples_name_their_axes_and_draw_the_control_behind_the_re_run() -> None:
    def series(*values: float) -> Series:
        return Series(name="max_vio/layers.1", steps=(1, 2), values=values, segments=(0, 0))

    rerun = Diagnostic(key="revert", kind="revert", label="without it", run_id="rr", measure=0.02)
    panel = reruns.panel(rerun, [series(0.3, 0.3)], [series(0.3, 0.9)], [series(0.3, 0.4)])
    styles = series_plot.Style
    assert [line.style for line in panel.lines] == [styles.REFERENCE, styles.CONTROL, styles.FIXED]
    drawn = small_multiples.chart(panel, units.brief("max_vio"), (0.0, 1.0), (1, 2), (1, 2), LIGHT)
    assert drawn.layout.xaxis.title.text == "optimizer step"
    assert drawn.layout.yaxis.title.text == "MaxVio<br>(ratio)"
    assert [(trace.name, trace.line.dash) for trace in drawn.data] == [
        ("the run", "solid"), ("the control", "dash"), ("layer 1", "solid"),
    ]  # fmt: skip
    assert "control" in reruns.legend(has_control=True)
    assert "control" not in reruns.legend(has_control=False)
