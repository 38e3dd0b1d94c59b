"""The one place that talks to litellm: any OpenAI-compatible server and Anthropic-style models, always streamed.

litellm is imported with the first call (seconds), with its local price map and without its own retries: waiting,
falling back and accounting are the door's.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import httpx

from agents.llm.assembly import Assembly
from agents.llm.errors import AnswerStopped, ContextTooLong, ModelBusy, ModelRefused, ModelUnavailable
from agents.llm.messages import Message, Speaker, ThinkingStyle, to_wire
from agents.llm.protocol import ModelRequest, OnDelta, Price, Reply, ToolSpec, ignore

_SIGNED = ("anthropic", "bedrock", "vertex_ai")  # providers whose thinking comes in signed blocks
_INTERLEAVED = {"anthropic-beta": "interleaved-thinking-2025-05-14"}  # thinking between tool calls, not only before
_NO_KEY = "none"  # a server of one's own asks for no key, but the client insists on one


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """`name` as litellm has it, for instance `openai/qwen3` with `api_base`, or `anthropic/claude-sonnet-4-5`.

    The key comes from the provider's own environment variable. `thinking_tokens`: what a model of the signed style may
    think; 0 asks for none. `price` overrides the price map.
    """

    name: str
    api_base: str = ""
    thinking_tokens: int = 0
    price: Price | None = None

    def build(self) -> LiteLLMModel:
        return LiteLLMModel(self)


class LiteLLMModel:
    def __init__(self, config: ModelConfig) -> None:
        self._config = config

    @property
    def name(self) -> str:
        return self._config.name

    @cached_property
    def price(self) -> Price | None:
        """The configured price, else that of litellm's local map."""
        if self._config.price is not None:
            return self._config.price
        costs = _litellm().model_cost
        known = costs.get(self.name) or costs.get(self.name.partition("/")[2])
        if known is None or "input_cost_per_token" not in known:
            return None
        return Price(prompt_usd=known["input_cost_per_token"], completion_usd=known["output_cost_per_token"])

    @property
    def carries(self) -> frozenset[ThinkingStyle]:
        own = ThinkingStyle.BLOCKS if self._is_signed else ThinkingStyle.FIELD
        return frozenset({own, ThinkingStyle.INLINE})

    def complete(self, request: ModelRequest, on_delta: OnDelta = ignore) -> Reply:
        """Raises ModelUnavailable also when the stream ends without saying that the answer is complete."""
        assembly = Assembly(model=self.name, on_delta=on_delta, signed=self._is_signed)
        with _translated(self.name):
            stream = _litellm().completion(**self._arguments(request))
            try:
                for chunk in stream:
                    assembly.add(chunk)
            except AnswerStopped:
                stream.close()  # else litellm keeps the connection, and the provider goes on writing
                raise
        return assembly.reply()

    @property
    def _is_signed(self) -> bool:
        return self.name.startswith(_SIGNED)

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        config = self._config
        arguments: dict[str, Any] = {
            "model": config.name,
            "messages": [to_wire(message) for message in request.messages],
            "max_tokens": request.max_tokens,
            "timeout": request.timeout_s,
            "stream": True,
            "stream_options": {"include_usage": True},
            "num_retries": 0,
            "max_retries": 0,
        }
        if request.tools:
            arguments["tools"] = [_tool(each) for each in request.tools]
        if config.api_base:
            arguments["api_base"] = config.api_base
            arguments |= {"api_key": _NO_KEY} if not _has_key(config.name) else {}
        if self._is_signed and config.thinking_tokens and _may_think(request.messages):
            arguments["thinking"] = {"type": "enabled", "budget_tokens": config.thinking_tokens}
            arguments |= {"extra_headers": _INTERLEAVED} if config.name.startswith("anthropic/") else {}
        return arguments


def _may_think(messages: Sequence[Message]) -> bool:
    """Anthropic refuses to think on with tool results when the call's own thinking does not come back with them."""
    if messages[-1].speaker is not Speaker.TOOL:
        return True
    called = next(each for each in reversed(messages) if each.speaker is not Speaker.TOOL)
    return any(each.style is ThinkingStyle.BLOCKS for each in called.thinking)


@cache
def _litellm() -> Any:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # read on import; otherwise prices come from the network
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    litellm.disable_token_counter = True  # a missing usage shall look missing
    return litellm


def _has_key(name: str) -> bool:
    return bool(_litellm().validate_environment(model=name)["keys_in_environment"])


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.arguments.model_json_schema()}
    return {"type": "function", "function": function}


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """litellm's errors become ours."""
    errors = _litellm().exceptions
    try:
        yield
    except errors.RateLimitError as error:
        raise ModelBusy(
            f"{name} is rate limited: {_first_line(error)}",
            remedy="wait, or set another model",
            retry_after_s=_retry_after_s(error),
        ) from error
    except errors.ContextWindowExceededError as error:
        raise ContextTooLong(
            f"{name}: {_first_line(error)}", remedy="begin a new thread or use a larger context"
        ) from error
    except (errors.AuthenticationError, errors.PermissionDeniedError) as error:
        raise ModelRefused(f"{name}: {_first_line(error)}", remedy="check the key of the model's provider") from error
    except (errors.BadRequestError, errors.NotFoundError, errors.UnprocessableEntityError) as error:
        raise ModelRefused(f"{name}: {_first_line(error)}", remedy="check LATHE_MODEL and LATHE_API_BASE") from error
    except (errors.openai.APIError, httpx.HTTPError) as error:  # every error of litellm is one of OpenAI's
        raise ModelUnavailable(
            f"{name} did not answer: {_first_line(error)}", remedy="check LATHE_API_BASE, or try again later"
        ) from error


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:300]


def _retry_after_s(error: Any) -> float | None:
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        return max(0.0, float(headers["retry-after"]))
    except (KeyError, ValueError):  # not said, or said as a date
        return None
