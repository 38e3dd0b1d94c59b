"""Models of a scripted server, and budgets that never run out."""

from __future__ import annotations

from collections.abc import Callable

from scripted_server import ScriptedServer

from agents.llm import Door, LiteLLMModel, ModelConfig, Price
from context_store.records import Amount

PLENTY = Amount(tokens=10_000_000, usd=100.0, wall_s=100_000.0)
CHEAP = Price(prompt_usd=0.001, completion_usd=0.01)


def openai_model(server: ScriptedServer, name: str = "scripted") -> LiteLLMModel:
    return ModelConfig(name=f"openai/{name}", api_base=f"{server.url}/v1", price=CHEAP).build()


def anthropic_model(server: ScriptedServer) -> LiteLLMModel:
    return ModelConfig(name="anthropic/claude-sonnet-4-5", api_base=server.url, thinking_tokens=1024).build()


NewDoor = Callable[..., Door]
