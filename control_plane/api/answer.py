"""The body of every successful answer."""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse

from control_plane.encoding import dump_arrays, dumps


class Answer(JSONResponse):
    """Records of the store as JSON; evidence as text, NaN and both infinities as words."""

    def render(self, content: Any) -> bytes:
        return dumps(content).encode()


class Arrays(Answer):
    """Where most of it are numbers of arrays."""

    def render(self, content: Any) -> bytes:
        return dump_arrays(content)
