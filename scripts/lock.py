"""Prints requirements.lock: every distribution of this environment at its exact version, Lathe itself left out."""

import sys
from importlib.metadata import distributions

HEADER = "# Made by `make lock` from pyproject.toml with the dev extra. One lock for everyone; do not edit by hand."


def locked_lines() -> list[str]:
    """One `name==version` a distribution, sorted; a local version label (torch's `+cpu`) is dropped."""
    left_out = {"lathe", "pip"}
    versions = {d.metadata["Name"].lower().replace("_", "-"): d.version.partition("+")[0] for d in distributions()}
    return [f"{name}=={version}" for name, version in sorted(versions.items()) if name not in left_out]


if __name__ == "__main__":
    sys.stdout.write("\n".join([HEADER, *locked_lines()]) + "\n")
