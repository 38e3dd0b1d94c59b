"""The dual loop of an experiment: plan, develop, analyse, review, iterate (RM2-7.18, Figure 8B)."""

from loops.dual.machine import DualLoop, Report, Standing, Work

__all__ = ["DualLoop", "Report", "Standing", "Work"]
