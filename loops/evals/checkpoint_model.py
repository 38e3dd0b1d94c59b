"""Checkpoints of the embedded trainer under evaluation: batched likelihood and generation over bytes.

Equal batch size and threads give equal bits. Rows of unequal length are padded on the right, which no earlier position
sees; generation batches prompts of equal length. Shape letters: B rows, S positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from contracts.events import Scalar
from loops.evals.model import Asked, Weighed, Written, cut
from trainer.config import TrainConfig
from trainer.decoder import Decoder
from trainer.generate import Sampling, full_logits

_END = 0  # the byte that ends a document


class CheckpointModel:
    """`weights` of a model with `config`, whose tokens are bytes.

    `starts`: documents follow each other in its training (`data.documents` stream), so that the byte that ends one
    stands before the next; packed documents and answers of an SFT begin with their own first byte.
    """

    def __init__(
        self, name: str, config: TrainConfig, weights: Mapping[str, Tensor], *, starts: bool, batch_size: int = 32
    ) -> None:
        self.name = name
        self._config, self._weights, self._batch_size = config, weights, batch_size
        self._start = _END if starts else None

    @property
    def facts(self) -> Mapping[str, Scalar]:
        return {
            "backend": "trainer",
            "backend_version": f"torch {torch.__version__}",
            "tokenizer": "bytes",
            "dtype": "float32",
            "batch_size": self._batch_size,
            "threads": torch.get_num_threads(),
            "first_token": "none" if self._start is None else self._start,
        }

    def tokens(self, asked: Asked) -> tuple[Sequence[int], int | None]:
        return self._ids(asked), self._start

    def weigh(self, asked: Sequence[Asked], continuations: Sequence[str]) -> list[Weighed]:
        heads = [self._ids(each) for each in asked]
        # A prompt without any token gives its first token no context to be judged in: the end of a document does.
        heads = [head or [_END] for head in heads]
        tails = [list(each.encode()) for each in continuations]
        found: list[Weighed] = [Weighed(logprob=0.0, num_tokens=0)] * len(heads)
        for rows in self._batches([len(head) + len(tail) for head, tail in zip(heads, tails, strict=True)]):
            logprobs = self._logprobs([heads[row] + tails[row] for row in rows])
            for row, logprob_S in zip(rows, logprobs, strict=True):
                begin, count = len(heads[row]) - 1, len(tails[row])
                total = float(logprob_S[begin : begin + count].sum())
                found[row] = Weighed(logprob=total, num_tokens=count)
        return found

    def write(self, asked: Sequence[Asked]) -> list[Written]:
        found: dict[int, Written] = {}
        for rows in self._alike(asked):
            found |= dict(zip(rows, self._generated([asked[row] for row in rows]), strict=True))
        return [found[row] for row in range(len(asked))]

    def _ids(self, asked: Asked) -> list[int]:
        start = [self._start] if asked.starts and self._start is not None else []
        return [*start, *(asked.text + asked.prefill).encode()]

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Rows of like length together, the longest first."""
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        for start in range(0, len(order), self._batch_size):
            yield order[start : start + self._batch_size]

    def _logprobs(self, rows: Sequence[Sequence[int]]) -> list[Tensor]:
        """[S - 1] float64 log-probability of each token after the first, for each row (padding included)."""
        longest = max(map(len, rows))
        tokens_BS = torch.tensor([[*row, *[_END] * (longest - len(row))] for row in rows])
        logits_BSV = full_logits(self._config, self._weights, tokens_BS[:, :-1])
        logprob_BSV = logits_BSV.double().log_softmax(dim=-1)
        return list(logprob_BSV.gather(-1, tokens_BS[:, 1:, None])[..., 0])

    def _alike(self, asked: Sequence[Asked]) -> Iterator[list[int]]:
        """Rows whose prompts and settings allow one batch; sampled answers by themselves, so that no other decides."""
        kinds: dict[tuple[object, ...], list[int]] = {}
        for row, each in enumerate(asked):
            own = (row,) if each.temperature > 0 else ()
            kinds.setdefault((len(self._ids(each)), each.max_tokens, *own), []).append(row)
        for rows in kinds.values():
            for start in range(0, len(rows), self._batch_size):
                yield rows[start : start + self._batch_size]

    def _generated(self, asked: Sequence[Asked]) -> list[Written]:
        first = asked[0]
        tokens_BQ = torch.tensor([self._ids(each) or [_END] for each in asked])
        decoder = Decoder(self._config, self._weights, len(asked), tokens_BQ.shape[1] + first.max_tokens)
        sampling = Sampling(temperature=first.temperature, top_p=first.top_p)
        generator = torch.Generator().manual_seed(first.seed)
        written, done = [bytearray() for _ in asked], [False] * len(asked)
        for _ in range(first.max_tokens):
            _, logits_BQV = decoder.extend(tokens_BQ)
            tokens_BQ = sampling.draw(sampling.distribution(logits_BQV[:, -1]), generator)
            for row, token in enumerate(tokens_BQ[:, 0].tolist()):
                if not done[row]:
                    done[row] = token == _END or token > 255
                    written[row] += b"" if done[row] else bytes([token])
                    done[row] = done[row] or bool(cut(_text(written[row]), asked[row].stop)[1])
            if all(done):
                break
        return [_written(_text(text), each, ended) for text, each, ended in zip(written, asked, done, strict=True)]


def _text(content: bytes | bytearray) -> str:
    return bytes(content).decode("utf-8", "replace")


def _written(text: str, asked: Asked, ended: bool) -> Written:
    kept, word = cut(text, asked.stop)
    return Written(text=kept, finish="stop" if ended else "length", stopped_by=word)
