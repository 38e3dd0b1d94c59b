"""Any OpenAI-compatible server under evaluation: plain completions, or chat through the server's own template.

Likelihoods need a server that echoes the log-probabilities of a given text (vLLM and others do; most hosted ones do
not): one that does not is told apart from one that scores badly. Servers add the first token themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx

from contracts.errors import EnvironmentFault, UserInputError
from contracts.events import Scalar
from loops.evals.model import Asked, Weighed, Written, cut

_ATTEMPTS = 4
_FIRST_WAIT_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """`base_url` ends with the version, as in http://127.0.0.1:8000/v1. `key` is sent as a bearer token, if any.

    `lanes`: requests at once. Raises EnvironmentFault where nobody answers, UserInputError for what it refuses.
    """

    base_url: str
    name: str
    sleep: Callable[[float], None]
    key: str = field(default="", repr=False)
    lanes: int = 1
    timeout_s: float = 120.0

    @property
    def facts(self) -> Mapping[str, Scalar]:
        return {
            "backend": "openai-compatible",
            "base_url": self.base_url,
            "batch_size": self.lanes,
            "first_token": "server",
        }

    def tokens(self, asked: Asked) -> None:
        """The server does not tell."""

    def weigh(self, asked: Sequence[Asked], continuations: Sequence[str]) -> list[Weighed]:
        return self._each(self._weighed, list(zip(asked, continuations, strict=True)))

    def write(self, asked: Sequence[Asked]) -> list[Written]:
        return self._each(self._written, list(asked))

    def _each(self, ask: Callable[[httpx.Client, Any], Any], requests: Sequence[Any]) -> list[Any]:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        with (
            httpx.Client(headers=headers, timeout=self.timeout_s) as client,
            ThreadPoolExecutor(self.lanes) as pool,
        ):
            return list(pool.map(lambda request: ask(client, request), requests))

    def _weighed(self, client: httpx.Client, pair: tuple[Asked, str]) -> Weighed:
        asked, continuation = pair
        prompt = asked.text + asked.prefill
        body = {"prompt": prompt + continuation, "max_tokens": 1, "echo": True, "logprobs": 1, "temperature": 0}
        choice = self._post(client, "completions", body)
        told = choice.get("logprobs") or {}
        offsets, values = told.get("text_offset") or [], told.get("token_logprobs") or []
        end = len(prompt) + len(continuation)
        own = [v for o, v in zip(offsets, values, strict=False) if len(prompt) <= o < end]
        if own and own[0] is None:
            raise UserInputError(
                f"{self.base_url} gives the first token of a text no likelihood, so that this text's would be too high",
                remedy="ask with a prompt before it, or measure bits per byte where the weights are",
            )
        if not own or offsets[0] != 0:
            raise UserInputError(
                f"{self.base_url} gives no log-likelihoods of a given text (echo with logprobs)",
                remedy="use protocols that generate, or a server that echoes log-probabilities, for instance vLLM",
            )
        return Weighed(logprob=float(sum(own)), num_tokens=len(own))

    def _written(self, client: httpx.Client, asked: Asked) -> Written:
        body: dict[str, Any] = {
            "max_tokens": asked.max_tokens,
            "temperature": asked.temperature,
            "top_p": asked.top_p,
            "seed": asked.seed % 2**31,
            "stop": list(asked.stop[:4]) or None,  # more are cut here: servers take four
        }
        if asked.chat:
            messages = [{"role": "user", "content": asked.text + asked.prefill}]
            choice = self._post(client, "chat/completions", body | {"messages": messages})
            text = (choice.get("message") or {}).get("content") or ""
        else:
            choice = self._post(client, "completions", body | {"prompt": asked.text + asked.prefill})
            text = choice.get("text") or ""
        kept, word = cut(text, asked.stop)
        return Written(text=kept, finish=str(choice.get("finish_reason") or "stop"), stopped_by=word)

    def _post(self, client: httpx.Client, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The first choice of the answer; asked again while the server is busy or away."""
        content = {key: value for key, value in body.items() if value is not None} | {"model": self.name}
        wait_s, problem = _FIRST_WAIT_S, ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                self.sleep(wait_s)
                wait_s *= 2
            try:
                response = client.post(f"{self.base_url}/{path}", json=content)
            except httpx.TransportError as error:
                problem = str(error) or type(error).__name__
                continue
            if response.status_code == 200:
                return _first_choice(response, self.base_url)
            problem = f"status {response.status_code}: {response.text[:200]}"
            if response.status_code not in (408, 429) and response.status_code < 500:
                raise UserInputError(f"{self.base_url} refuses the request: {problem}", remedy="check model and key")
        raise EnvironmentFault(
            f"{self.base_url} did not answer in {_ATTEMPTS} attempts: {problem}",
            remedy="start the server, or try later",
        )


def _first_choice(response: httpx.Response, base_url: str) -> dict[str, Any]:
    try:
        choice: dict[str, Any] = response.json()["choices"][0]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UserInputError(
            f"{base_url} does not answer as an OpenAI-compatible server ({error!r})", remedy="check the address"
        ) from error
    return choice
