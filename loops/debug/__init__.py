"""The debug loop: detect, open a case, find the cause by re-runs, fix the continuing run. Heavy parts load on use."""

from loops.debug.case import detect, note_silence, open_case, silent
from loops.debug.silence import Pause

__all__ = ["Pause", "detect", "note_silence", "open_case", "silent"]
