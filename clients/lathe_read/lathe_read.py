"""lathe_read: what Lathe knows about your runs, as pandas objects. One file, read-only, Python 3.9 or newer.

    import lathe_read
    lathe = lathe_read.connect()
    lathe.runs()
    lathe.history("my-run", "loss")
    lathe.layers("my-run", "max_vio", lo=1000, hi=2000)
    lathe.diff("my-run#0", "my-run#1")

Where Lathe is: `url` and `token`, else LATHE_API_URL and LATHE_TOKEN, else the `lathe up` of this machine (LATHE_HOME).
Values are exact float64, NaN and both infinities included. Nothing here can change anything: every request is a GET.
"""

from __future__ import annotations

import http.client
import io
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import numpy as np
import pandas as pd

__all__ = ["Lathe", "LatheReadError", "connect"]
__version__ = "0.1.0"

_PAGE = 500
_TIMEOUT_S = 300.0
_RUN = ["id", "project_id", "name", "role", "state", "message", "last_step", "created_at", "parent_run_id",
        "parent_step", "investigation_id", "folder"]  # fmt: skip


class LatheReadError(Exception):
    """Lathe refused or did not answer; the text says what to do about it."""


def connect(url: str | None = None, token: str | None = None) -> Lathe:
    """Raises LatheReadError when no address is known."""
    url = url or os.environ.get("LATHE_API_URL", "")
    token = token or os.environ.get("LATHE_TOKEN", "")
    services = Path(os.environ.get("LATHE_HOME", "~/.lathe")).expanduser() / "services"
    try:
        url = url or f"http://127.0.0.1:{json.loads((services / 'api.json').read_text())['port']}"
        token = token or (services / "token").read_text()
    except (OSError, ValueError, KeyError) as error:
        raise LatheReadError("no Lathe is known: set LATHE_API_URL and LATHE_TOKEN, or use `lathe up`") from error
    return Lathe(url, token)


class Lathe:
    """Steps that are given as `lo` and `hi` are inclusive. Every method raises LatheReadError."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = urlsplit(url), token

    def runs(self, role: str | None = None, limit: int | None = None) -> pd.DataFrame:
        """One row a run, newest first. `role`: training or diagnostic."""
        return pd.DataFrame(list(self._all("/runs", "runs", limit, role=role)), columns=_RUN).set_index("id")

    def table(
        self,
        metrics: Sequence[str] | None = None,
        keys: Sequence[str] | None = None,
        project: str | None = None,
        limit: int = 50,
    ) -> pd.DataFrame:
        """Runs with their latest values and declared configuration; None: of all names."""
        rows = self._all("/run-table", "rows", limit, project=project, metric=metrics, key=keys)
        return pd.DataFrame([{**row["run"], **row["config"], **_floats(row["latest"])} for row in rows])

    def run(self, run: str) -> dict[str, Any]:
        """One run with its segments, checkpoints and the latest values of whole-model statistics."""
        return self._json(f"/runs/{_part(run)}")

    def names(self, run: str, statistic: str | None = None) -> list[str]:
        """Names of the run's series."""
        return list(self._json(f"/runs/{_part(run)}/series", statistic=statistic)["names"])

    def history(
        self, run: str, name: str, lo: int | None = None, hi: int | None = None, view: str = "canonical"
    ) -> pd.DataFrame:
        """Every point of one series: columns step, value, segment. View `full`: superseded points too."""
        found = self._arrays(f"/runs/{_part(run)}/history", name=name, lo=lo, hi=hi, view=view)
        return pd.DataFrame({"step": found["steps"], "value": found["values"], "segment": found["segments"]})

    def matrix(self, run: str, names: Sequence[str], lo: int | None = None, hi: int | None = None) -> pd.DataFrame:
        """Canonical values of several series: one column a name, index step.

        A point that was never logged looks like a NaN that was; `history` has only what was logged.
        """
        found = self._arrays(f"/runs/{_part(run)}/matrix", name=list(names), lo=lo, hi=hi)
        return _frame(found, pd.Index(found["names"].tolist(), name="name"))

    def layers(
        self,
        run: str,
        statistic: str,
        lo: int | None = None,
        hi: int | None = None,
        *,
        module: str | None = None,
        layer: int | None = None,
        expert: int | None = None,
        rank: int | None = None,
    ) -> pd.DataFrame:
        """A statistic across the model: columns (layer, expert, rank, name) with <NA> for what a name does not have."""
        where = {"module": module, "layer": layer, "expert": expert, "rank": rank}
        found = self._arrays(f"/runs/{_part(run)}/across", statistic=statistic, lo=lo, hi=hi, **where)
        parts = [pd.array(found[kind], dtype="Int64") for kind in ("layers", "experts", "ranks")]
        for part in parts:
            part[part == -1] = pd.NA
        levels = [*parts, found["names"].tolist()]
        return _frame(found, pd.MultiIndex.from_arrays(levels, names=["layer", "expert", "rank", "name"]))

    def around(
        self, run: str, names: Sequence[str], steps: Sequence[int], before: int = 50, after: int = 50
    ) -> pd.DataFrame:
        """Series around changes at `steps`: index offset from the change, columns (name, step of the change)."""
        query = {"name": list(names), "step": list(steps), "before": before, "after": after}
        found = self._arrays(f"/runs/{_part(run)}/around", **query)
        columns = pd.MultiIndex.from_product([found["names"].tolist(), found["steps"]], names=["name", "step"])
        values = found["values"].transpose(2, 1, 0).reshape(len(found["offsets"]), -1)
        return pd.DataFrame(values, index=pd.Index(found["offsets"], name="offset"), columns=columns)

    def first_non_finite(self, run: str, statistic: str | None = None) -> pd.DataFrame:
        """The first NaN or infinity of each series that has one, earliest first."""
        rows = self._json(f"/runs/{_part(run)}/non-finite", statistic=statistic)["non_finite"]
        found = pd.DataFrame(rows, columns=["name", "layer", "step", "segment", "value"])
        return found.assign(value=found["value"].astype(float), layer=found["layer"].astype("Int64"))

    def downsampled(
        self, run: str, name: str, buckets: int = 600, lo: int | None = None, hi: int | None = None
    ) -> pd.DataFrame:
        """For plots: extremes, first, last and every non-finite point of each bucket of steps."""
        found = self._json(f"/runs/{_part(run)}/points", name=name, buckets=buckets, lo=lo, hi=hi)["series"][0]
        values = [float(value) for value in found["values"]]
        return pd.DataFrame({"step": found["steps"], "value": values, "segment": found["segments"]})

    def timeline(self, run: str) -> pd.DataFrame:
        """What changed or happened, by segment and step."""
        columns = ["segment", "step", "kind", "title", "detail", "at"]
        return pd.DataFrame(list(self._all(f"/runs/{_part(run)}/timeline", "events")), columns=columns)

    def config(self, run: str, segment: int | None = None, step: int | None = None) -> pd.DataFrame:
        """Declared and effective values by dotted key; `segment` None is the newest, `step` None its end."""
        found = self._json(f"/runs/{_part(run)}/config", segment=segment, step=step)
        columns = {name: pd.Series(found[name], dtype=object) for name in ("declared", "effective")}
        return pd.DataFrame(columns).rename_axis("key")

    def diff(self, before: str, after: str) -> pd.DataFrame:
        """What differs between two runs or segments (RUN#SEGMENT): section, key, before, after."""
        found = self._json("/diff", before=before, after=after)
        rows = [
            (section, change["key"], change["before"], change["after"])
            for section in ("config", "effective", "mixture", "environment")
            for change in found[section]
        ]
        code = found["code"]
        if code["before"] != code["after"]:
            rows.append(("code", "commit", code["before"], code["after"]))
        rows += [("code", "subject", None, f"{commit['hash'][:12]} {commit['subject']}") for commit in code["commits"]]
        return pd.DataFrame(rows, columns=["section", "key", "before", "after"])

    def investigations(self) -> pd.DataFrame:
        """One row a case, with verdict and scope."""
        return pd.DataFrame(list(self._all("/investigations", "investigations")))

    def investigation(self, case: str) -> dict[str, Any]:
        """A case with everything that belongs to it."""
        return self._json(f"/investigations/{_part(case)}")

    def negatives(self, text: str) -> pd.DataFrame:
        """What was tried before and did not work."""
        return pd.DataFrame(self._json("/negatives", q=text)["negatives"])

    def _all(self, path: str, part: str, limit: int | None = None, **query: Any) -> Iterator[dict[str, Any]]:
        """A list that comes in pages, whole or its first `limit`."""
        left, after = limit, None
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            answer = self._json(path, **query, limit=size, after=after)
            yield from answer[part]
            left, after = None if left is None else left - len(answer[part]), answer["next"]
            if after is None:
                return

    def _json(self, path: str, **query: Any) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._get(path, query))
        return found

    def _arrays(self, path: str, **query: Any) -> dict[str, Any]:
        with np.load(io.BytesIO(self._get(path, query)), allow_pickle=False) as found:
            return {name: found[name] for name in found.files}

    def _get(self, path: str, query: dict[str, Any]) -> bytes:
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._url.hostname or "", self._url.port, timeout=_TIMEOUT_S)
        given = urlencode({name: value for name, value in query.items() if value is not None}, doseq=True)
        try:
            target = f"{self._url.path.rstrip('/')}/api/v1{path}?{given}"
            connection.request("GET", target, headers={"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise LatheReadError(f"no answer from {self._url.netloc}: {error}; start it with `lathe up`") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise LatheReadError(_problem(answer.status, body))
        return body


def _frame(found: dict[str, Any], columns: pd.Index | pd.MultiIndex) -> pd.DataFrame:
    return pd.DataFrame(found["values"].T, index=pd.Index(found["steps"], name="step"), columns=columns)


def _floats(values: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}


def _part(name: str) -> str:
    return quote(name, safe="")


def _problem(status: int, body: bytes) -> str:
    try:
        told = json.loads(body)
        return f"{told['detail']}; {told['remedy']}"
    except (ValueError, KeyError, TypeError):
        return f"status {status}"
