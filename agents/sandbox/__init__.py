"""Runs code that agents wrote where it can hurt nobody. See protocol.py first, then README.md."""

from agents.sandbox.namespaces import NamespaceSandbox
from agents.sandbox.protocol import (
    Change,
    ChangeKind,
    Command,
    Exported,
    Facts,
    Limits,
    Mount,
    Outcome,
    Reaped,
    Result,
    Sandbox,
    Snapshot,
    Trust,
    Workspace,
)

__all__ = [
    "Change",
    "ChangeKind",
    "Command",
    "Exported",
    "Facts",
    "Limits",
    "Mount",
    "NamespaceSandbox",
    "Outcome",
    "Reaped",
    "Result",
    "Sandbox",
    "Snapshot",
    "Trust",
    "Workspace",
]
