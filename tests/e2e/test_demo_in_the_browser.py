"""The whole main job as a person sees it: a real demo, its pages in a real browser, one click that fixes the run."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

Page = Any
MARKUP = '<b id="injected">news</b>'
_NEAR = 50  # steps before and after the onset that are compared
_HEAT = "document.querySelector('.js-plotly-plot').data[0]"


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A demo that waits for a decision: the page's address, the API with the admin's token, the process."""

    url: str
    api: httpx.Client
    process: subprocess.Popen[str]

    @property
    def page(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def ask(self, path: str, **query: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.api.get(path, params=query).raise_for_status().json()
        return answer

    def token(self, name: str, role: str) -> str:
        made = self.api.post("/tokens", json={"name": name, "role": role}).raise_for_status()
        return str(made.json()["secret"])


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path: sockets lie below it."""
    folder = Path(tempfile.mkdtemp(prefix="lt"))
    yield folder / "home"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs `pip install playwright`")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs chromium: apt-get install chromium")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=chromium, headless=True, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def waiting(home: Path, tmp_path: Path) -> Iterator[Waiting]:
    command = [sys.executable, "-m", "control_plane.cli.main", "demo", "--fault", "layer_skip", "--seed", "4", "--json"]
    command += ["--home", str(home)]
    with (tmp_path / "printed.txt").open("w") as printed:
        demo = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.PIPE, text=True, bufsize=1
        )
        assert demo.stderr is not None
        url = next(line for line in demo.stderr if "Approve or reject it on the page" in line).split()[-1]
        (token,) = parse_qs(urlsplit(url).query)["token"]
        port = json.loads((home / "services" / "api.json").read_text())["port"]
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1", headers=headers, timeout=60) as api:
            yield Waiting(url=url, api=api, process=demo)
        demo.send_signal(signal.SIGINT)  # so that it stops the services that it started; nothing where it is over
        demo.communicate(timeout=120)


@pytest.mark.slow
@pytest.mark.timeout(900)  # a whole demo, then its pages
def test_a_morning_with_lathe(home: Path, tmp_path: Path, browser: Any, waiting: Waiting) -> None:
    """Shows R801-2.13: nothing is applied until a person decides; what they approve is what the loop found, once."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(120_000)
    page.goto(waiting.url)  # log in by token
    page.locator(".lt-health h1").wait_for()
    assert "token" not in page.url
    (case,) = waiting.ask("/investigations")["investigations"]
    _the_bad_layer_jumps_out(page, waiting, case)
    page.goto(f"{waiting.page}/")
    page.locator(".lt-found a").first.click()  # open the investigation
    page.get_by_text("What Lathe found in").wait_for()
    page.locator(".lt-finding .lt-proven").wait_for()
    _a_question_is_answered(page)
    _a_negative_result_is_found(page, waiting, case)
    _runs_are_compared(page, waiting, case)
    _one_proposal_is_rejected(page, waiting)
    _a_viewer_cannot_approve(browser, waiting, case)
    _the_fix_is_approved_and_the_run_followed(page, waiting)
    assert waiting.process.stderr is not None
    said = waiting.process.stderr.read()
    assert waiting.process.wait() == 0, said
    outcome = json.loads((tmp_path / "printed.txt").read_text().splitlines()[-1])
    assert (outcome["verdict"], outcome["verified"]) == ("proven", True)
    assert outcome["culprit_commits"] == outcome["truth_commits"]
    assert "seen in the browser" in next((home / "report").glob("*.md")).read_text()


def _the_bad_layer_jumps_out(page: Page, waiting: Waiting, case: dict[str, Any]) -> None:
    """The layer that the finding names is one of the two rows that stand out most; the fault skips two."""
    (leading, *_) = waiting.ask(f"/investigations/{case['id']}")["anomalies"]
    page.goto(f"{waiting.page}/run?run={case['run_id']}&view=layers&statistic=balance_loss")
    page.wait_for_function(f"document.querySelector('.js-plotly-plot') && {_HEAT}?.type === 'heatmap'")
    steps, layers, rows = (page.evaluate(f"Array.from({_HEAT}.{axis})") for axis in "xyz")
    lo, hi = leading["onset"]
    rises = [
        mean(v for s, v in zip(steps, row, strict=True) if hi < s <= hi + _NEAR)
        - mean(v for s, v in zip(steps, row, strict=True) if lo - _NEAR <= s < lo)
        for row in rows
    ]
    ranked = sorted(range(len(rises)), key=lambda row: -abs(rises[row] - median(rises)))
    worst = {f"layers.{layers[row]}" for row in ranked[:2]}
    assert any(name.partition("/")[2] in worst for name in leading["series"])


def _a_question_is_answered(page: Page) -> None:
    page.get_by_role("link", name="Ask about it").click()
    page.get_by_role("button", name="Why did it happen?").click()
    page.get_by_text("answered by rules, without a model").wait_for()
    page.locator(".lt-answer .lt-evidence").first.wait_for()


def _a_negative_result_is_found(page: Page, waiting: Waiting, case: dict[str, Any]) -> None:
    negatives = waiting.ask(f"/investigations/{case['id']}")["negatives"]
    page.goto(f"{waiting.page}/memory")
    page.get_by_label("Search").fill(negatives[0]["claim"])
    page.get_by_label("Search").press("Enter")
    page.locator(".lt-card", has_text=negatives[0]["claim"][:40]).first.wait_for()


def _runs_are_compared(page: Page, waiting: Waiting, case: dict[str, Any]) -> None:
    runs = [run["id"] for run in waiting.ask("/runs", role="training")["runs"]]
    page.goto(f"{waiting.page}/compare?runs={case['run_id']},{next(run for run in runs if run != case['run_id'])}")
    page.locator(".js-plotly-plot .lines").first.wait_for()
    page.get_by_role("heading", name="Evaluations").wait_for()


def _one_proposal_is_rejected(page: Page, waiting: Waiting) -> None:
    payload = {"url": "http://127.0.0.1:9/", "text": "hello"}
    body = {"kind": "notify", "title": f"Tell the team {MARKUP}", "payload": payload}
    made = waiting.api.post("/proposals", json=body).raise_for_status().json()["proposal"]
    page.goto(f"{waiting.page}/approvals?proposal={made['id']}")
    page.get_by_role("heading", name=f"Tell the team {MARKUP}").wait_for()
    page.get_by_label("Comment").fill("no need")
    page.get_by_role("button", name="Reject").click()
    page.locator(".lt-decided.lt-rejected", has_text="no need").wait_for()
    assert page.locator("#injected").count() == 0


def _a_viewer_cannot_approve(browser: Any, waiting: Waiting, case: dict[str, Any]) -> None:
    """Neither on the page nor by a direct request."""
    token = waiting.token("vera", "viewer")
    (proposal,) = waiting.ask("/proposals", state="open")["proposals"]
    page = browser.new_context().new_page()
    page.set_default_timeout(120_000)
    for address in (f"/approvals?proposal={proposal['id']}&token={token}", f"/?investigation={case['id']}"):
        page.goto(waiting.page + address)
        page.get_by_text("You can read this, but not decide it").wait_for()
        assert page.get_by_role("button", name="Approve").count() == 0
    page.context.close()
    refused = httpx.post(
        f"{waiting.api.base_url}proposals/{proposal['id']}/approve",
        json={"comment": "", "bound_hash": proposal["bound_hash"]},
        headers={"Authorization": f"Bearer {token}"},
    )
    assert refused.status_code == 403
    assert [each["id"] for each in waiting.ask("/proposals", state="open")["proposals"]] == [proposal["id"]]


def _the_fix_is_approved_and_the_run_followed(page: Page, waiting: Waiting) -> None:
    """The step grows without a reload; the change was carried out once."""
    page.goto(f"{waiting.page}/")
    page.locator(".lt-needs a").first.click()
    page.get_by_label("Comment").fill("seen in the browser")
    page.get_by_role("button", name="Approve").click()
    page.locator(".lt-decided.lt-approved", has_text="seen in the browser").wait_for()
    running = page.locator(".lt-running small").first
    first = running.inner_text()
    page.wait_for_function(
        "first => { const now = document.querySelector('.lt-running small'); return now && now.innerText !== first }",
        arg=first,
    )
    changes = [each for each in waiting.ask("/effects")["effects"] if each["kind"] == "resume_with_patch"]
    assert len(changes) == 1
