"""Colours that stay apart for colour-blind eyes (Okabe and Ito, 2008), on light and on dark ground.

Meaning never rests on colour alone: lines also differ in dash or weight and carry their name, chips a sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st


@dataclass(frozen=True, kw_only=True)
class Palette:
    """Colours by meaning."""

    faulty: str
    healthy: str
    fixed: str
    reference: str
    onset: str
    ink: str
    faint: str
    ground: str
    cycle: tuple[str, ...]  # for series a person chose


LIGHT = Palette(
    faulty="#c44601",
    healthy="#0072b2",
    fixed="#00805d",
    reference="#9aa1a6",
    onset="rgba(230, 159, 0, 0.20)",
    ink="#3c4449",
    faint="rgba(60, 68, 73, 0.12)",
    ground="#fbfbfa",
    cycle=("#0072b2", "#c44601", "#00805d", "#a0528a", "#b97d00", "#3a9bd1", "#5b6166"),
)
DARK = Palette(
    faulty="#ff8a4c",
    healthy="#56b4e9",
    fixed="#35c79b",
    reference="#6d767c",
    onset="rgba(230, 159, 0, 0.17)",
    ink="#c8d0d4",
    faint="rgba(200, 208, 212, 0.14)",
    ground="#14181b",
    cycle=("#56b4e9", "#ff8a4c", "#35c79b", "#d99bc4", "#f0c04a", "#8fd0f5", "#aab2b7"),
)


def current() -> Palette:
    """The palette of the theme the viewer's browser shows."""
    return DARK if st.context.theme.type == "dark" else LIGHT
