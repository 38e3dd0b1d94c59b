"""The bridge to an MLflow server that asks for a login: MLflow's own basic-auth server, both ways."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from mlflow import MlflowClient
from test_mlflow_sink import RUN, begin, ship, steps

from context_store import Store
from context_store.importers import Options, Report, discover
from context_store.importers import store as bring
from contracts.errors import EnvironmentFault, UserInputError
from control_plane.mlflow_sink import MlflowSink

NAME, PASSWORD = "admin", "a-long-password-1234"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Its address; it needs the package flask-wtf."""
    pytest.importorskip("flask_wtf")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "auth.ini").write_text(
        f"[mlflow]\ndefault_permission = READ\ndatabase_uri = sqlite:///{tmp_path}/auth.db\nadmin_username = {NAME}\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
        "grant_default_workspace_access = false\nauth_cache_ttl_seconds = 60\n"
    )
    more = {
        "MLFLOW_AUTH_CONFIG_PATH": str(tmp_path / "auth.ini"), "MLFLOW_AUTH_ADMIN_PASSWORD": PASSWORD,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "of this test", "MLFLOW_DISABLE_TELEMETRY": "true",
    }  # fmt: skip
    command = [sys.executable, "-m", "mlflow", "server", "--app-name", "basic-auth", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--workers", "1", "--backend-store-uri", f"sqlite:///{tmp_path}/mlflow.db"]
    with (tmp_path / "server.log").open("w") as said:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=os.environ | more, stdout=said, stderr=said, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, process, tmp_path / "server.log")
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        try:
            if httpx.get(f"{url}/health", timeout=1.0).is_success:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
        assert process.poll() is None, log.read_text()[-2000:]
    raise AssertionError(log.read_text()[-2000:])


def brought(uri: str, store: Store) -> Report:
    found, _ = discover(uri)
    return bring(list(found), store.url, Options(actor="ada"), clock=time.time, tell=lambda _: None)


@pytest.mark.slow
@pytest.mark.timeout(600)  # checking a password takes MLflow seconds on a busy machine
def test_runs_go_there_and_come_from_there_with_mlflows_own_login(
    store: Store, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # no credentials of the machine
    for name in ("USERNAME", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    begin(store, tmp_path / RUN, 0, 0)
    ship(store, tmp_path / RUN, 0, *steps(1, 5, 0.0))
    with pytest.raises(EnvironmentFault, match="MLflow at") as caught:
        MlflowSink(store, server).mirror(store.runs.get(RUN))
    assert "MLFLOW_TRACKING_USERNAME" in caught.value.remedy
    (refused,) = brought(server, store).failures
    assert isinstance(refused.failure, UserInputError)
    assert "wants another login (401)" in refused.failure.message
    assert "MLFLOW_TRACKING_USERNAME" in refused.failure.remedy

    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", NAME)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
    copied = MlflowSink(store, server).mirror(store.runs.get(RUN))
    assert copied is not None
    assert copied.num_metrics == 8
    client = MlflowClient(server)
    theirs = client.create_run(client.create_experiment("theirs"), run_name="other").info.run_id
    client.log_metric(theirs, "loss", 2.5, step=1)
    assert len(brought(server, store).runs) == 1, "a copy of ours is not imported"
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME")
    with_login = server.replace("http://", f"http://{NAME}:{PASSWORD}@")
    assert (len(brought(with_login, store).runs), brought(with_login, store).failures) == (1, [])
    (run,) = [run for run in store.runs.list() if run.id != RUN]
    assert store.series.read(run.id, "loss").values.tolist() == [2.5]
    assert PASSWORD not in f"{run} {store.projects.get(run.project_id)} {store.timeline.list(run.id)}"
