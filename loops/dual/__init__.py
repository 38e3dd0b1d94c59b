"""The dual loop of an experiment: plan, develop, analyse, review, iterate (RM2-7.18, Figure 8B)."""

from loops.dual.machine import DualLoop, Report, Standing, Work
from loops.dual.plan import Arm, Plan, Question, make_plan
from loops.dual.what_if import WhatIf, keys_of

__all__ = ["Arm", "DualLoop", "Plan", "Question", "Report", "Standing", "WhatIf", "Work", "keys_of", "make_plan"]
