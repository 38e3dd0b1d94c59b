"""How much of an anomaly a change accounts for, as negative results keep it, whether it was proven or excluded.

1 is the whole anomaly as it was recorded, 0 none of it; so results of two cases on the same change can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from context_store import Store
from context_store.records import Diagnostic, EffectSize, VerdictRecord
from contracts.enums import DiagnosticKind, Verdict
from loops.debug.case import Case
from loops.debug.readout import Measured, control_of, read_rerun, read_swap
from loops.debug.verdict import off, recession

_UNIT = "of the anomaly as recorded"
_UNCHANGED = (DiagnosticKind.REPLAY, DiagnosticKind.PLACEBO)  # their distance from 1 is noise


def whole(case: Case) -> EffectSize:
    """What is expected of leaving out a cause."""
    return _size(case, 1.0, None)


def proven_effect(case: Case, verdict: VerdictRecord | None) -> EffectSize | None:
    """That of a proven cause with its interval; None when nothing is proven or measured."""
    if verdict is None or verdict.verdict is not Verdict.PROVEN or verdict.effect is None:
        return None
    return _size(case, verdict.effect, verdict.interval)


def effect_in(store: Store, case: Case, run_id: str, diagnostics: Sequence[Diagnostic]) -> EffectSize | None:
    """What a re-run took away of the anomaly; None when it was not measured.

    Its interval is the variation over steps, at least as wide as replays and placebo are off; none without a replay.
    """
    diagnostic = next((d for d in diagnostics if d.run_id == run_id and d.measure is not None), None)
    if diagnostic is None or diagnostic.measure is None:
        return None
    measured = _read(store, case, diagnostic, diagnostics)
    unchanged = [off(d) for d in diagnostics if d.kind in _UNCHANGED and d.measure is not None]
    if measured is None or not unchanged:
        return _size(case, 1.0 - diagnostic.measure, None)
    return _size(case, *recession(measured, max(unchanged)))


def _read(store: Store, case: Case, diagnostic: Diagnostic, diagnostics: Sequence[Diagnostic]) -> Measured | None:
    if diagnostic.kind is DiagnosticKind.SWAP:
        return read_swap(store, case, diagnostic.run_id, case.seat) if case.seat else None
    control = None if diagnostic.kind is DiagnosticKind.CONTROL else control_of(diagnostics)
    return read_rerun(store, case, diagnostic, control)


def _size(case: Case, value: float, interval: tuple[float, float] | None) -> EffectSize:
    leading = case.leading
    series = f" in {leading.series[0]}" if leading.series else ""
    lo, hi = interval or (None, None)
    return EffectSize(
        what=f"share of {leading.kind}{series} that goes without it", value=value, lo=lo, hi=hi, unit=_UNIT
    )
