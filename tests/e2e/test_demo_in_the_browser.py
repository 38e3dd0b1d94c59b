"""The whole main job as a person sees it: a real demo, its page in a real browser, one click that fixes the run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path: sockets lie below it."""
    folder = Path(tempfile.mkdtemp(prefix="lt"))
    yield folder / "home"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_a_person_approves_what_the_loop_proposed(home: Path, tmp_path: Path) -> None:
    """Shows R801-2.13: nothing is applied until a person decides; what they approve is what the loop found."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs `pip install playwright`")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs chromium: apt-get install chromium")
    command = [sys.executable, "-m", "control_plane.cli.main", "demo", "--seed", "4", "--json", "--home", str(home)]
    with (tmp_path / "printed.txt").open("w+") as printed:
        demo = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.PIPE, text=True, bufsize=1
        )
        assert demo.stderr is not None
        url = next(line for line in demo.stderr if "Approve or reject it on the page" in line).split()[-1]
        with playwright.sync_playwright() as running:
            browser = running.chromium.launch(executable_path=chromium, headless=True, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(url)
            page.locator(".lt-needs a").first.click()
            page.get_by_label("Comment").fill("seen in the browser")
            page.get_by_role("button", name="Approve").click()
            page.locator(".lt-decided.lt-approved", has_text="seen in the browser").wait_for()
            browser.close()
        said = demo.stderr.read()
        assert demo.wait() == 0, said
        printed.seek(0)
        outcome = json.loads(printed.read().splitlines()[-1])
    assert (outcome["verdict"], outcome["verified"]) == ("proven", True)
    assert outcome["culprit_commits"] == outcome["truth_commits"]
    report = next((home / "report").glob("*.md")).read_text()
    assert "seen in the browser" in report
