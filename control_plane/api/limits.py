"""How much each token may ask for: requests and body bytes a second, with a burst of a few seconds.

Kept in each process: where several of them serve the API, each gives a token its part. Wrong tokens share an allowance.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass

BURST_S = 4.0  # seconds of allowance that may be used at once
_MAX_KEYS = 10_000


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """Of one token, in the long run."""

    requests_per_s: float = 500.0
    bytes_per_s: float = 32.0 * 2**20


@dataclass
class _Bucket:
    """What is left at `at`; negative after a body that was larger than what was left."""

    requests: float
    size: float
    at: float


class Limiter:
    """Token buckets by key. Thread-safe."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: str, num_bytes: int, now: float) -> float:
        """0.0 when the request may go on; else the seconds after which it may, and nothing was taken."""
        rate = self._allowance
        with self._lock:
            fresh = _Bucket(rate.requests_per_s * BURST_S, rate.bytes_per_s * BURST_S, now)
            bucket = self._buckets.pop(key, None) or fresh
            self._buckets[key] = bucket
            if len(self._buckets) > _MAX_KEYS:
                self._buckets.popitem(last=False)
            gone_s = max(0.0, now - bucket.at)
            bucket.at = now
            bucket.requests = min(fresh.requests, bucket.requests + gone_s * rate.requests_per_s)
            bucket.size = min(fresh.size, bucket.size + gone_s * rate.bytes_per_s)
            wait_s = max((1.0 - bucket.requests) / rate.requests_per_s, -bucket.size / rate.bytes_per_s)
            if wait_s > 0.0:
                return wait_s
            bucket.requests -= 1.0
            bucket.size -= num_bytes
            return 0.0


def retry_after(wait_s: float) -> str:
    """Whole seconds for the header Retry-After."""
    return str(max(1, math.ceil(wait_s)))
