"""One direction of imports, no side effects on import, and a fast command line."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("contracts", "context_store", "trainer", "agents", "loops", "control_plane")
HEAVY = ("torch", "ray", "mlflow", "litellm", "langgraph", "sqlalchemy", "streamlit", "pandas", "scipy")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_contracts_hold() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout


def test_the_command_line_starts_without_heavy_modules() -> None:
    code = f"import sys, control_plane.cli.main; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run(code).strip() == "[]"


@pytest.mark.parametrize("package", PACKAGES)
def test_import_has_no_side_effects(package: str, tmp_path: Path) -> None:
    """Importing every module of a package starts no thread, opens no listener and writes no file."""
    code = f"""
import importlib, os, pkgutil, psutil, sys, threading
os.chdir({str(tmp_path)!r})
sys.path.insert(0, {str(ROOT)!r})
environment = dict(os.environ)
package = importlib.import_module({package!r})
for module in pkgutil.walk_packages(package.__path__, {package!r} + "."):
    skipped = ("__main__", ".versions.", "migrations.env", "demo.project", "trainer.child")
    if not any(part in module.name for part in skipped):
        importlib.import_module(module.name)
ours = [t for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon]
assert ours == [], ours
assert os.listdir(".") == [], os.listdir(".")
assert [c for c in psutil.Process().net_connections() if c.status == "LISTEN"] == []
changed = {{k for k in os.environ if k.startswith("LATHE_") and os.environ[k] != environment.get(k)}}
assert changed == set(), changed
"""
    run(code)


def test_only_the_store_imports_sqlalchemy_and_only_the_llm_door_litellm() -> None:
    owners = {"sqlalchemy": ("context_store/",), "litellm": ("agents/llm",)}
    for library, allowed in owners.items():
        for package in PACKAGES:
            for path in (ROOT / package).rglob("*.py"):
                name = str(path.relative_to(ROOT))
                lines = [line.strip() for line in path.read_text().splitlines()]
                imports = [line for line in lines if line.startswith((f"import {library}", f"from {library}"))]
                assert not imports or name.startswith(allowed), f"{name} imports {library}"


def test_the_environment_is_read_only_in_the_settings_and_the_wiring() -> None:
    allowed = ("control_plane/settings.py", "control_plane/wiring.py", "ui/client.py", "ui/app.py")
    for package in (*PACKAGES, "ui"):
        for path in (ROOT / package).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            text = path.read_text()
            reads = "os.environ.get(" in text or "os.getenv(" in text or 'os.environ["LATHE' in text
            assert not reads or name in allowed, f"{name} reads the environment"
