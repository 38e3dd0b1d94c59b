"""An MLflow server, read through its REST API (2.0): http://host:port, or .../#/experiments/ID for one experiment.

Its login is that of MLflow itself: MLFLOW_TRACKING_USERNAME and _PASSWORD, or _TOKEN, or ~/.mlflow/credentials, also
MLFLOW_TRACKING_INSECURE_TLS and _SERVER_CERT_PATH; or name and password in the address.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import numpy as np

from context_store.importers.formats import Format, Source, Tree
from context_store.importers.items import Items
from context_store.importers.mlflow_runs import MAX_FLOAT, tracked
from context_store.importers.tracked_runs import Metric, items_of
from contracts.errors import EnvironmentFault, UserInputError

_EXPERIMENT = re.compile(r"[/#]experiments/(\d+)")
_OWN_LOGIN = re.compile(r"^(?P<scheme>https?://)(?P<name>[^/@:]+)(?::(?P<password>[^/@]*))?@(?P<rest>.*)$")
LOGIN = "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, as for MLflow itself"
_PAGE = 1000
_HISTORY_PAGE = 25_000
_TIMEOUT_S = 60.0


def find(tree: Tree) -> list[Source]:
    return []


def read(source: Source) -> Items:
    """Raises EnvironmentFault when the server does not answer, UserInputError when it is no MLflow server or wants
    another login."""
    import httpx

    base, own_login = _split(source.uri.partition("#")[0].rstrip("/"))
    wanted = _EXPERIMENT.search(source.uri)
    try:
        login = _login(base, own_login)
        with httpx.Client(base_url=f"{base}/api/2.0/mlflow", timeout=_TIMEOUT_S, **login) as client:
            experiments = {
                e["experiment_id"]: e["name"] for e in _pages(client, "experiments/search", "experiments", {})
            }
            if wanted:
                experiments = {key: name for key, name in experiments.items() if key == wanted[1]}
            query = {"experiment_ids": list(experiments), "order_by": ["attributes.start_time ASC"]}
            for run in _pages(client, "runs/search", "runs", query) if experiments else ():
                yield from _run(client, run, experiments, base)
    except httpx.TransportError as error:
        raise EnvironmentFault(
            f"{base} does not answer: {error}", remedy="check the address, and that the MLflow server runs"
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError) as error:
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code in (401, 403):
            raise UserInputError(f"{base} wants another login ({error.response.status_code})", remedy=LOGIN) from error
        raise UserInputError(
            f"{base} does not answer as an MLflow server does: {type(error).__name__}: {error}"[:300],
            remedy="give the address of an MLflow server, http://HOST:PORT",
        ) from error


def _split(base: str) -> tuple[str, tuple[str, str] | None]:
    """The address without a login, which nothing that is stored or said may hold; and that login."""
    found = _OWN_LOGIN.match(base)
    if found is None:
        return base, None
    return f"{found['scheme']}{found['rest']}", (unquote(found["name"]), unquote(found["password"] or ""))


def _login(base: str, own: tuple[str, str] | None) -> dict[str, Any]:
    """Arguments for httpx."""
    from mlflow.utils.credentials import get_default_host_creds

    known = get_default_host_creds(base)  # type: ignore[no-untyped-call]
    verify: Any = not known.ignore_tls_verification
    if known.server_cert_path:
        verify = ssl.create_default_context(cafile=known.server_cert_path)
    named = own or ((known.username, known.password or "") if known.username else None)
    if named:
        return {"verify": verify, "auth": named}
    return {"verify": verify, "headers": {"Authorization": f"Bearer {known.token}"} if known.token else {}}


def _pages(client: Any, path: str, name: str, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
    token = ""
    while True:
        more = {"page_token": token} if token else {}
        answer = client.post(path, json={**query, "max_results": _PAGE, **more})
        answer.raise_for_status()
        content = answer.json()
        yield from content.get(name, [])
        token = content.get("next_page_token", "")
        if not token:
            return


def _run(client: Any, run: dict[str, Any], experiments: dict[str, str], base: str) -> Items:
    info, data = run["info"], run.get("data", {})
    run_id = info["run_id"]
    yield from items_of(
        tracked(
            run_id,
            name=info.get("run_name", ""),
            experiment=experiments[info["experiment_id"]],
            origin=f"{base}/#/experiments/{info['experiment_id']}/runs/{run_id}",
            status=info.get("status", ""),
            started_ms=info.get("start_time"),
            ended_ms=info.get("end_time"),
            params={each["key"]: each.get("value", "") for each in data.get("params", [])},
            tags={each["key"]: each.get("value", "") for each in data.get("tags", [])},
            metrics={each["key"]: _history(client, run_id, each["key"]) for each in data.get("metrics", [])},
        )
    )


def _history(client: Any, run_id: str, key: str) -> Metric:
    rows: list[tuple[int, int, float]] = []
    token = ""
    while True:
        query = {"run_id": run_id, "metric_key": key, "max_results": _HISTORY_PAGE}
        answer = client.get("metrics/get-history", params=query | ({"page_token": token} if token else {}))
        answer.raise_for_status()
        content = answer.json()
        rows += [(int(m["timestamp"]), int(m.get("step", 0)), _value(m["value"])) for m in content.get("metrics", [])]
        token = content.get("next_page_token", "")
        if not token:
            break
    rows.sort(key=lambda row: row[0])
    times, steps, values = zip(*rows, strict=True) if rows else ((), (), ())
    return Metric(times=np.array(times, np.int64), steps=np.array(steps, np.int64), values=np.array(values, np.float64))


def _value(value: Any) -> float:
    """Numbers, or NaN and Infinity as text; the largest numbers stand for infinities."""
    number = float(value)
    return float(np.copysign(np.inf, number)) if abs(number) >= MAX_FLOAT else number


FORMAT = Format(name="MLflow server", find=find, read=read)
