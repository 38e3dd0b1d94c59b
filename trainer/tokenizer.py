"""A corpus in the tokens of a Hugging Face tokenizer instead of bytes."""

from __future__ import annotations

import hashlib
import importlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.errors import ConfigError, EnvironmentFault, UserInputError
from trainer.corpus import Corpus

_ENDS = ("<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "</s>", "<eos>", "[SEP]")


def tokenised(corpus: Corpus, path: Path, vocab_size: int) -> Corpus:
    """Each document encoded by the `tokenizer.json` at `path` and ended by its token for that.

    Raises EnvironmentFault without tokenizers, UserInputError for a file that is none or has no such token, and
    ConfigError when the model's vocabulary is too small.
    """
    tokenizer, end = _loaded(path)
    if vocab_size < (needed := int(tokenizer.get_vocab_size())):
        raise ConfigError(
            f"data.tokenizer has {needed} tokens, model.vocab_size is {vocab_size}",
            remedy=f"set model.vocab_size to at least {needed}",
        )
    sources = tuple(_encoded(text, tokenizer, end) for text in corpus.sources)
    digest = hashlib.sha256(corpus.sha256.encode() + path.read_bytes()).hexdigest()
    return Corpus(sources=sources, sha256=digest, end=end, cut=corpus.cut)


def _loaded(path: Path) -> tuple[Any, int]:
    try:
        package = importlib.import_module("tokenizers")
    except ModuleNotFoundError as error:
        raise EnvironmentFault(
            "data.tokenizer needs tokenizers, which is not installed",
            remedy="pip install '.[corpora]' in Lathe's folder",
        ) from error
    try:
        tokenizer = package.Tokenizer.from_str(path.read_text())
    except Exception as error:  # the package raises Exception itself for a file that is no tokenizer
        raise UserInputError(
            f"data.tokenizer: {path} cannot be read ({error})", remedy="name the tokenizer.json of a model"
        ) from error
    ends = [tokenizer.token_to_id(name) for name in _ENDS]
    end = next((number for number in ends if number is not None), None)
    if end is None:
        raise UserInputError(
            f"data.tokenizer: {path} has no token that ends a document", remedy=f"add one of {', '.join(_ENDS)}"
        )
    return tokenizer, int(end)


def _encoded(text: NDArray[np.generic], tokenizer: Any, end: int) -> NDArray[np.int32]:
    whole = text.tobytes().removesuffix(b"\0")
    documents = [document.decode("utf-8", "replace") for document in whole.split(b"\0")]
    tokens: list[int] = []
    for encoding in tokenizer.encode_batch(documents, add_special_tokens=False):
        tokens += [*encoding.ids, end]
    return np.array(tokens, dtype=np.int32)
