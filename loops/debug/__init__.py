"""The debug loop: detect, open a case, find the cause by re-runs, fix the continuing run. Heavy parts load on use."""

from loops.debug.case import detect, open_case

__all__ = ["detect", "open_case"]
