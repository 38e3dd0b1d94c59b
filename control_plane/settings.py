"""Typed settings. The environment (`LATHE_*` and Ray's own `RAY_ADDRESS`) is read here and nowhere else."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from contracts.errors import ConfigError
from control_plane.backends.command_registry import FOLDER


class Settings(BaseSettings):
    """Where Lathe keeps its things and what it may use. Every field has an environment variable `LATHE_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix="LATHE_", frozen=True, extra="ignore", validate_default=True)

    home: Path = Path("~/.lathe")
    database_url: str = ""  # "" runs the embedded Postgres in `home`
    backend: Literal["ray", "local"] = "ray"  # local: plain processes, where Ray cannot start
    ray_address: str = Field(default="", validation_alias="RAY_ADDRESS")  # "" starts Ray on this machine
    num_cpus: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1)  # launches at the same time
    api_port: int = Field(default=0, ge=0, le=65535)  # 0 takes a free port
    api_listen: str = "127.0.0.1"  # another address only inside a container, or behind a proxy that speaks TLS
    api_hosts: str = ""  # names besides loopback by which the API may be called, separated by commas
    api_processes: int = Field(default_factory=lambda: min(2, os.cpu_count() or 1), ge=1, le=16)
    api_requests_per_s: float = Field(default=500.0, gt=0)  # of one token in the long run
    api_bytes_per_s: float = Field(default=32.0 * 2**20, gt=0)  # of request bodies
    ui_port: int = Field(default=0, ge=0, le=65535)
    model: str = ""  # litellm model name; "" works without any model
    model_fallbacks: str = ""  # further models, asked in this order when those before do not answer; commas between
    api_base: str = ""  # OpenAI-compatible server, of all of them
    thinking: Literal["interleaved", "front_loaded", "stateless", "none"] = "interleaved"  # what goes back (agents/llm)
    thinking_tokens: int = Field(default=0, ge=0)  # asked of models with signed thinking (Anthropic); 0 asks for none
    context_tokens: int = Field(default=128_000, ge=2048)  # of the smallest of the models
    chat_tokens: int = Field(default=1_000_000, ge=0)  # of one thread, or of the agents of one case, for good
    chat_usd: float = Field(default=5.0, ge=0)
    embed_tokens: int = Field(default=50_000_000, ge=0)  # of a remote embedder, each day
    embed_usd: float = Field(default=5.0, ge=0)
    mcp_token: str = ""  # for whom `lathe mcp` speaks over standard input; "" is a viewer
    embedder: str = ""  # hashed, or a litellm embedding model; "" is all-MiniLM-L6-v2 where installed, else hashed
    mlflow_uri: str = ""  # tracking server or database to which runs are copied; "" copies nothing
    log_level: str = "warning"
    log_json: bool = False
    fresh_seeds: int = Field(default=5, ge=0, le=20)  # pairs from random weights after a proof; 0 is off
    actor: str = Field(default_factory=lambda: _login(), min_length=1)  # who acts, in ledger and approvals
    cancel_grace_s: float = Field(default=20.0, gt=0)  # what a cancelled training gets to write a checkpoint

    @field_validator("home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("log_level")
    @classmethod
    def _known_level(cls, value: str) -> str:
        if value.lower() not in ("debug", "info", "warning", "error"):
            raise ValueError("choose debug, info, warning or error")
        return value.lower()

    def as_environment(self) -> dict[str, str]:
        """The variables from which another process gets the same settings."""
        values = self.model_dump(mode="json", exclude={"ray_address"})
        return {f"LATHE_{name.upper()}": str(value) for name, value in values.items()} | {
            "RAY_ADDRESS": self.ray_address
        }

    @property
    def api_host_names(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.api_hosts.split(",") if name.strip())

    @property
    def model_names(self) -> tuple[str, ...]:
        """In the order in which they are asked; none without `model`."""
        further = [name.strip() for name in self.model_fallbacks.split(",") if name.strip()]
        return tuple(dict.fromkeys([self.model, *further])) if self.model else ()

    @property
    def runs_folder(self) -> Path:
        return self.home / "runs"

    @property
    def backends_folder(self) -> Path:
        """Beside the folder of runs: a run finds the spec it was started with from its own place."""
        return self.home / FOLDER

    @property
    def worktrees_folder(self) -> Path:
        return self.home / "worktrees"

    @property
    def cases_folder(self) -> Path:
        """One folder for each case that has work of its own."""
        return self.home / "cases"

    @property
    def classifiers_folder(self) -> Path:
        """What is deployed, by name."""
        return self.home / "classifiers"

    @property
    def workers_folder(self) -> Path:
        return self.home / "workers"

    @property
    def spent_folder(self) -> Path:
        return self.home / "spent"

    @property
    def services_folder(self) -> Path:
        return self.home / "services"

    @property
    def postgres_folder(self) -> Path:
        return self.home / "postgres"


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return "operator"


def load_settings(home: Path | None = None) -> Settings:
    """Settings of this environment; `home` overrides LATHE_HOME. Raises ConfigError that names the variable."""
    try:
        return Settings() if home is None else Settings(home=home)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        variable = name if name.isupper() else f"LATHE_{name.upper()}"
        raise ConfigError(
            f"{variable}={first['input']!r}: {first['msg']}", remedy=f"correct or unset the variable {variable}"
        ) from error
