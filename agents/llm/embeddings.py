"""Vectors of any embedding model that litellm knows, brought to the store's number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agents.llm.litellm_model import _NO_KEY, _has_key, _litellm, _translated
from context_store.embedding import DIMENSIONS, Vectors, to_dimensions

_BATCH = 64
_TIMEOUT_S = 60.0


class LiteLLMEmbedder:
    """`name` as litellm has it, `openai/text-embedding-3-small`; the key comes from the provider's own variable."""

    def __init__(self, name: str, api_base: str = "") -> None:
        self.name = name
        self._api_base = api_base

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Raises ModelBusy, ModelRefused, ModelUnavailable."""
        rows: list[list[float]] = []
        for start in range(0, len(texts), _BATCH):
            with _translated(self.name):
                answer = _litellm().embedding(input=list(texts[start : start + _BATCH]), **self._arguments())
            rows += [each["embedding"] for each in sorted(answer.data, key=lambda each: int(each["index"]))]
        return to_dimensions(np.array(rows)) if rows else np.zeros((0, DIMENSIONS), np.float32)

    def _arguments(self) -> dict[str, object]:
        own = {"api_base": self._api_base} if self._api_base else {}
        own |= {"api_key": _NO_KEY} if self._api_base and not _has_key(self.name) else {}
        return {"model": self.name, "timeout": _TIMEOUT_S, "max_retries": 0, "encoding_format": "float", **own}
