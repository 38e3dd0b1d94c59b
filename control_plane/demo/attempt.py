"""One attempt at a demo, and what surrounds its stages: the folder, its settings, the services.

Every stage looks in the folder and the store for what it did before, so the same command goes on after Ctrl-C or a
kill at any moment, and nothing happens twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from contracts.errors import UserInputError
from control_plane.demo.home import DemoHome, Progress
from control_plane.demo.screen import Screen
from control_plane.demo.stages import Choice, Demo
from control_plane.logging import configure_logging
from control_plane.services import cluster
from control_plane.settings import Settings, load_settings
from control_plane.wiring import Lathe


def run(choice: Choice, folder: Path | None, screen: Screen) -> str:
    """The outcome as one line of JSON."""
    settings = demo_settings(choice, folder)
    home = DemoHome(settings.home)
    with home.locked():
        screen.plan(f"The demo `{choice.fault.name}` with seed {choice.seed}", str(home.folder))
        began = begin(home, choice, settings, screen)
        began_at = time.monotonic() - began.spent_s
        with (
            _timed(home),
            _services(settings, screen, with_page=choice.with_page) as page,
            Lathe.open(settings) as lathe,
        ):
            return Demo(choice, home, lathe, screen, page, began_at=began_at).run()


def demo_settings(choice: Choice, folder: Path | None) -> Settings:
    """Settings of this demo alone: own folder, own database, no language model, nothing beyond this machine."""
    base = load_settings(folder)
    home = base.home if folder else base.home / "demo" / f"{choice.fault.name}-{choice.seed}"
    configure_logging(base.log_level, as_json=base.log_json)
    return base.model_copy(update={"home": home, "database_url": "", "ray_address": "", "model": "", "api_base": ""})


def begin(home: DemoHome, choice: Choice, settings: Settings, screen: Screen) -> Progress:
    """The progress so far; a finished demo is removed first. UserInputError when another demo is half done here."""
    kept = home.progress()
    if kept is not None and kept.finished:
        screen.say(f"The demo in {home.folder} has finished; it starts afresh.")
        cluster.down(settings)
        home.clear()
        kept = None
    if kept is None:
        return home.save(Progress(fault=choice.fault.name, seed=choice.seed))
    if (kept.fault, kept.seed) != (choice.fault.name, choice.seed):
        raise UserInputError(
            f"{home.folder} holds a demo that is not finished (--fault {kept.fault} --seed {kept.seed})",
            remedy="finish that one, remove the folder, or give another --home",
        )
    screen.say(f"Going on with the demo in {home.folder}.")
    return kept


@contextmanager
def _timed(home: DemoHome) -> Iterator[None]:
    """Add the seconds of this attempt, however it ends (a kill loses them)."""
    started = time.monotonic()
    try:
        yield
    finally:
        if progress := home.progress():
            home.save(replace(progress, spent_s=progress.spent_s + time.monotonic() - started))


@contextmanager
def _services(settings: Settings, screen: Screen, *, with_page: bool) -> Iterator[str]:
    """The page's URL while the demo runs, "" without one; everything is stopped at the end."""
    try:
        if with_page:
            screen.stage("Starting the database, the API and the page")
            addresses = cluster.up(settings, lambda what: screen.say(f"  {what}"), with_worker=False)
            screen.say(f"Watch it here: {addresses.url}", "bold cyan")
        yield addresses.url if with_page else ""
    finally:
        cluster.down(settings)
