"""The plain subprocess never runs untrusted code unless a person allowed it."""

from pathlib import Path

import pytest

from agents.sandbox import Command, Mount, NamespaceSandbox, Trust
from agents.sandbox.subprocess_unsafe import UnsafeSubprocess
from contracts.errors import NotPermitted, UserInputError


def test_untrusted_code_is_refused_with_the_remedy(tmp_path: Path) -> None:
    sandbox = UnsafeSubprocess(tmp_path)
    workspace = sandbox.create()
    with pytest.raises(NotPermitted, match="NamespaceSandbox"):
        sandbox.run(workspace, Command(argv=("true",)))
    assert sandbox.run(workspace, Command(argv=("true",), trust=Trust.TRUSTED)).ok
    assert sandbox.facts().isolated is False
    sandbox.close()
    assert list(tmp_path.iterdir()) == []


def test_the_person_who_allowed_it_is_shown(tmp_path: Path) -> None:
    sandbox = UnsafeSubprocess(tmp_path, allowed_by="Ada")
    assert sandbox.run(sandbox.create(), Command(argv=("true",))).ok
    assert "untrusted code allowed by Ada" in sandbox.facts().notes
    sandbox.close()


def test_what_it_cannot_hold_to_is_refused(tmp_path: Path) -> None:
    sandbox = UnsafeSubprocess(tmp_path / "store", allowed_by="Ada")
    workspace = sandbox.create()
    with pytest.raises(UserInputError, match="proxy"):
        sandbox.run(workspace, Command(argv=("true",), proxy=tmp_path / "socket"))
    with pytest.raises(UserInputError, match="leave the mount's target empty"):
        sandbox.run(workspace, Command(argv=("true",), mounts=(Mount(source=tmp_path, target="/inputs"),)))
    sandbox.close()


def test_a_workspace_of_another_sandbox_is_refused(tmp_path: Path, sandbox: NamespaceSandbox) -> None:
    other = UnsafeSubprocess(tmp_path, allowed_by="Ada")
    theirs, ours = other.create(), sandbox.create()
    with pytest.raises(UserInputError, match="another sandbox"):
        sandbox.run(theirs, Command(argv=("true",)))
    with pytest.raises(UserInputError, match="another sandbox"):
        other.run(ours, Command(argv=("true",)))
    ours.discard()
    other.close()
