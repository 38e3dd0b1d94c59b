"""Weights of `weighing`, in the order of the features that `deciding` names."""

from __future__ import annotations

from collections.abc import Mapping

from agents.chat.deciding import Weights
from agents.chat.passages import Part
from agents.chat.reading import Slot

CASE_WEIGHTS = (3.76, 3.17, 2.3, 3.45, 2.91, 5.83, 1.49, 1.37)
PASSAGE_WEIGHTS = (4.65, 2.85, 2.13, 2.94, 4.05)
PART_WEIGHTS: Mapping[str, float] = {
    Part.CASE: 0.45,
    Part.VERDICT: 0.72,
    Part.SYMPTOM: -0.17,
    Part.CHANGE: -2.09,
    Part.SUSPECT: 0.14,
    Part.TRIED: -0.51,
    Part.RERUN: -1.29,
    Part.PROPOSAL: 2.43,
    Part.RUN: 0.31,
}
FORM_WEIGHTS: Mapping[str, float] = {
    Part.CASE: 1.66,
    Part.VERDICT: 1.88,
    Part.SYMPTOM: 2.06,
    Part.CHANGE: 3.86,
    Part.SUSPECT: 0.48,
    Part.TRIED: 4.19,
    Part.RERUN: 0.33,
    Part.PROPOSAL: 1.59,
    Part.RUN: 2.54,
}
SLOT_WEIGHTS: Mapping[str, Mapping[str, float]] = {
    Slot.REMEDY: {
        Part.CASE: -0.66,
        Part.VERDICT: 0.77,
        Part.SYMPTOM: -0.46,
        Part.CHANGE: -1.02,
        Part.SUSPECT: -0.26,
        Part.TRIED: 1.5,
        Part.RERUN: -0.13,
        Part.PROPOSAL: 0.42,
        Part.RUN: -0.16,
    },
    Slot.SUSPECT: {
        Part.CASE: 0.5,
        Part.VERDICT: 0.54,
        Part.SYMPTOM: -0.33,
        Part.CHANGE: -1.52,
        Part.SUSPECT: 2.11,
        Part.TRIED: -0.96,
        Part.RERUN: 0.12,
        Part.PROPOSAL: -0.2,
        Part.RUN: -0.27,
    },
    Slot.AMOUNT: {
        Part.CASE: -0.3,
        Part.VERDICT: -0.42,
        Part.SYMPTOM: 0.8,
        Part.CHANGE: 0.21,
        Part.SUSPECT: -0.36,
        Part.TRIED: -0.38,
        Part.RERUN: -0.98,
        Part.PROPOSAL: -0.37,
        Part.RUN: 1.8,
    },
    Slot.DURATION: {Part.CASE: -0.11, Part.SYMPTOM: -0.04, Part.CHANGE: -0.01, Part.TRIED: 0.18, Part.RUN: -0.02},
    Slot.WHO: {
        Part.CASE: -0.06,
        Part.VERDICT: -0.09,
        Part.SYMPTOM: -0.01,
        Part.CHANGE: -0.61,
        Part.SUSPECT: -0.33,
        Part.TRIED: -0.06,
        Part.RERUN: -0.04,
        Part.PROPOSAL: 1.21,
        Part.RUN: -0.01,
    },
    Slot.NAME: {
        Part.CASE: -0.13,
        Part.VERDICT: -0.4,
        Part.SYMPTOM: 0.95,
        Part.CHANGE: 0.24,
        Part.SUSPECT: -0.43,
        Part.TRIED: -0.78,
        Part.RERUN: -0.16,
        Part.PROPOSAL: 0.87,
        Part.RUN: -0.15,
    },
    Slot.PRESENT: {},
    Slot.OPEN: {
        Part.CASE: 1.22,
        Part.VERDICT: 0.33,
        Part.SYMPTOM: -1.08,
        Part.CHANGE: 0.63,
        Part.SUSPECT: -0.59,
        Part.TRIED: -0.01,
        Part.RERUN: -0.11,
        Part.PROPOSAL: 0.5,
        Part.RUN: -0.88,
    },
}
NEAR = 6.9  # of the leading case, so that it is meant at all
RULES_FIRST = 0.7  # what a passage gains that the rules put first
WEIGHTS = Weights(case=CASE_WEIGHTS, passage=PASSAGE_WEIGHTS, part=PART_WEIGHTS, form=FORM_WEIGHTS, slot=SLOT_WEIGHTS)
