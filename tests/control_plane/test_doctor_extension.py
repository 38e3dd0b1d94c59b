"""Which pgvector the search needs, said by the doctor."""

from __future__ import annotations

import pytest

from control_plane.doctor import extension


@pytest.mark.parametrize(
    ("version", "ok", "remedy"),
    [
        (None, False, "CREATE EXTENSION vector"),
        ("0.7.4", False, "pgvector 0.8 or newer"),
        ("0.8.0", True, ""),
        ("0.10.1", True, ""),
        ("1.0", True, ""),
    ],
)
def test_a_pgvector_without_iterative_scans_is_told_with_its_remedy(version: str | None, ok: bool, remedy: str) -> None:
    check = extension(version)
    assert (check.name, check.ok) == ("extension", ok)
    assert remedy in check.remedy
    assert bool(check.remedy) is not ok
