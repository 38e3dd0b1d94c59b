"""Typed tools over the store: reading ones, and two that hand in a request. Every row of a result cites evidence."""

from agents.tools.protocol import Arguments, Row, Tool, ToolResult
from agents.tools.requests import Desk, OpensCases, Wish
from agents.tools.team import refuse_foreign, tools_of
from agents.tools.toolbox import READING, Toolbox

__all__ = [
    "READING",
    "Arguments",
    "Desk",
    "OpensCases",
    "Row",
    "Tool",
    "ToolResult",
    "Toolbox",
    "Wish",
    "refuse_foreign",
    "tools_of",
]
