"""Structured logs on standard error, as text for people or one JSON object a line."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logging(level: str, *, as_json: bool) -> None:
    """Route structlog and the standard logging of libraries to standard error from `level` on."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    threshold = logging.getLevelNamesMapping()[level.upper()]
    errors = [structlog.processors.format_exc_info] if as_json else []
    structlog.configure(
        processors=[*shared, *errors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )
    logging.basicConfig(stream=sys.stderr, level=max(threshold, logging.WARNING), format="%(name)s: %(message)s")
