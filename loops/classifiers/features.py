"""Hashed text features by array arithmetic alone, so that training and a one-file scorer share them (numpy only).

A document becomes the set of its words, its pairs of neighbouring words, its tokens as they are written (between
blanks, with case and signs), and every three bytes that follow each other in lower case. Each element is a 64-bit hash
of which the top bits are a column (feature hashing, Weinberger et al. 2009, without signs: elements are rare enough
here). All documents of a batch are one array of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BITS = 18  # 2^18 columns
HEAD_CHARS, TAIL_CHARS = 2500, 1500  # what lies between is not read: texts say what they are where they begin and end
_ODD = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xC2B2AE3D27D4EB4F)
_WHOLE = np.uint64(0xFFFFFFFFFFFFFFFF)
_FIVE_BYTES = np.uint64(40)
_THREE = np.uint64(3)
_BLANK = 32
_KEPT = "$!%"  # signs that are part of a word


def _word_table() -> bytes:
    """Byte -> lower-case letter, 0 for digits, itself for `_KEPT` and bytes above ASCII, a blank otherwise."""
    table = bytearray(b" " * 256)
    for code in range(256):
        sign = chr(code)
        if code >= 128 or sign in _KEPT:
            table[code] = code
        elif sign.isalpha():
            table[code] = ord(sign.lower())
        elif sign.isdigit():
            table[code] = ord("0")
    return bytes(table)


_WORDS = _word_table()
_TOKENS = bytes(_BLANK if code <= _BLANK else code for code in range(256))


def columns(texts: Sequence[str], *, triples: bool = True) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(column, start): the distinct columns of each text, ascending; those of text i are `column[start[i]:start[i+1]]`.

    `column` has one value an element, `start` len(texts) + 1. An empty text has no column. Without `triples` they are
    those of words, pairs and tokens alone.
    """
    encoded = [_read_part(text).encode("utf-8", "replace") + b" " for text in texts]
    ends = np.cumsum([len(each) for each in encoded], dtype=np.int64)
    joined = b"".join(encoded)
    words, of_word = _hashes(joined.translate(_WORDS), ends)
    tokens, of_token = _hashes(joined.translate(_TOKENS), ends)
    together = of_word[:-1] == of_word[1:]
    pairs = _mixed(words[:-1] * np.uint64(31) + words[1:])[together]
    parts = [(words, of_word), (pairs, of_word[:-1][together]), (_mixed(tokens + _ODD), of_token)]
    if triples:
        parts.append(_triples(joined.lower(), ends))
    hashes = np.concatenate([each for each, _ in parts])
    keys = np.concatenate([of_text for _, of_text in parts]) << BITS
    keys |= (hashes >> np.uint64(64 - BITS)).astype(np.int64)
    keys.sort()
    keys = keys[np.flatnonzero(np.diff(keys, prepend=-1))]
    return keys & ((1 << BITS) - 1), np.searchsorted(keys >> BITS, np.arange(len(texts) + 1))


def _read_part(text: str) -> str:
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return text
    return f"{text[:HEAD_CHARS]} {text[-TAIL_CHARS:]}"


def _hashes(joined: bytes, ends: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Of each run of bytes that are no blank: its hash and the number of its text.

    The hash is of its first and its last eight bytes and its length; runs that agree in all three count as one.
    """
    eights = _eights(joined)
    filled = np.frombuffer(joined, np.uint8) != _BLANK
    edges = np.flatnonzero(np.diff(filled, prepend=False, append=False))
    first, behind = edges[::2], edges[1::2]
    length = (behind - first).astype(np.uint64)
    kept = _WHOLE >> (np.uint64(64) - np.uint64(8) * np.minimum(length, np.uint64(8)))
    begin = eights[first] & kept
    end = eights[np.maximum(behind - 8, first)] & kept
    of_text = np.repeat(np.arange(ends.size), np.diff(np.searchsorted(first, ends), prepend=0))
    return _mixed(np.asarray(begin * _ODD + end * _OTHER + length, dtype=np.uint64)), of_text


def _triples(joined: bytes, ends: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Of every three bytes of one text that follow each other: their hash and the number of the text."""
    of_text = np.repeat(np.arange(ends.size), np.diff(ends, prepend=0))
    inside = of_text[:-2] == of_text[2:]
    return _mixed(_mixed((_eights(joined)[:-2][inside] << _FIVE_BYTES) * _OTHER + _THREE)), of_text[:-2][inside]


def _eights(joined: bytes) -> NDArray[np.uint64]:
    """Eight bytes from every place on, zeros behind the end."""
    return np.ndarray((len(joined),), dtype="<u8", buffer=joined + bytes(8), strides=(1,))


def _mixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit over all (the finaliser of MurmurHash3, shortened)."""
    hashes = np.asarray((hashes ^ (hashes >> np.uint64(29))) * _ODD, dtype=np.uint64)
    return hashes ^ (hashes >> np.uint64(32))
