"""Dockerfile and compose file name things that exist. They are not built here: there is no container runtime."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from control_plane.settings import Settings

ROOT = Path(__file__).parents[2]
LATHES = ("api", "worker", "page")
OF_THE_PAGE = {"LATHE_API_URL", "LATHE_TOKEN"}
KNOWN = {f"LATHE_{name.upper()}" for name in Settings.model_fields} | {"RAY_ADDRESS"}


@pytest.fixture
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return found


def test_all_parts_are_there_and_wait_for_each_other(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert set(services) == {"postgres", *LATHES}
    assert "pgvector" in services["postgres"]["image"]
    for name in ("api", "worker"):
        assert services[name]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert services["postgres"]["healthcheck"]["test"]
    volumes = {each.partition(":")[0] for service in services.values() for each in service.get("volumes", ())}
    assert set(compose["volumes"]) <= volumes


def test_every_variable_is_one_that_lathe_reads(compose: dict[str, Any]) -> None:
    for name in ("api", "worker"):
        environment = compose["services"][name]["environment"]
        assert set(environment) <= KNOWN, name
        values = {key: "x" if "${" in str(value) else value for key, value in environment.items()}
        Settings.model_validate({key.removeprefix("LATHE_").lower(): value for key, value in values.items()})
    assert set(compose["services"]["page"]["environment"]) <= OF_THE_PAGE, "the page gets no database credentials"


def test_only_loopback_is_published(compose: dict[str, Any]) -> None:
    published = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert len(published) == 2
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_secrets_are_never_in_the_file() -> None:
    text = (ROOT / "compose.yaml").read_text()
    passwords = re.findall(r"(?i)password: +(.+)", text) + re.findall(r"://\w+:([^@\n]+)@", text)
    assert passwords
    assert all(each.strip().startswith("${LATHE_DB_PASSWORD:?") for each in passwords)


def test_commands_exist(compose: dict[str, Any]) -> None:
    docker = (ROOT / "Dockerfile").read_text()
    (default,) = re.findall(r"^CMD (.+)$", docker, re.MULTILINE)
    commands = [compose["services"][name]["command"] for name in LATHES] + [json.loads(default)]
    for command in commands:
        assert command[:2] == ["python", "-m"]
        assert importlib.util.find_spec(command[2]) is not None, command
        for part in command[3:]:
            assert not part.endswith(".py") or (ROOT / part).is_file()


def test_the_image_holds_every_package_and_runs_as_nobody_special() -> None:
    docker = (ROOT / "Dockerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (.+)$", docker, re.MULTILINE) for name in line.split()[:-1]]
    assert all((ROOT / name).exists() for name in copied)
    project = (ROOT / "pyproject.toml").read_text()
    (include,) = re.findall(r"^include = (\[.+\])$", project, re.MULTILINE)
    assert {name.rstrip("*") for name in json.loads(include)} <= set(copied)
    kept = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    assert kept == set(copied), "what is copied is what is sent to the builder"
    assert re.search(r"^USER lathe$", docker, re.MULTILINE)
    venv = docker.index("ENV PATH=/opt/venv/bin:$PATH")
    assert docker.index("RUN python -m venv /opt/venv") < venv < docker.index("RUN pip install")
