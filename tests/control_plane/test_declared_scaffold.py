"""A run of somebody else's scaffold begins with what it declares, or not at all."""

import time
from pathlib import Path

import pytest

from benchmarks.evolve_parts.exporting import write_scaffold
from contracts.errors import UserInputError
from control_plane.evolution import NewRun, begin
from control_plane.wiring import Lathe
from loops.evolve.loop import Asked, asked_of

AGENT = {"agent.py": "print()\n", "params.json": '{"tries": 1}\n'}
DECLARED = "[parameters.tries]\nvalues = [1, 2]\n"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (AGENT, "nothing says what may be changed"),
        ({**AGENT, "scaffold.toml": "[parameters.colour]\nvalues = [1]\n"}, "colour does not stand in params.json"),
        ({**AGENT, "scaffold.toml": "[parameters.tries]\nvalues = [1, 2\n"}, "scaffold.toml"),
    ],
)
def test_a_scaffold_that_declares_badly_begins_no_case(
    lathe: Lathe, tmp_path: Path, files: dict[str, str], said: str
) -> None:
    write_scaffold(tmp_path / "theirs", files)
    with pytest.raises(UserInputError, match=said):
        begin(lathe, NewRun(scaffold=str(tmp_path / "theirs"), asked=Asked(suite_hash="")), time.time())
    assert lathe.store.knowledge.investigations() == []


def test_our_known_edit_is_no_round_of_a_scaffold_that_declares_its_own_surface(lathe: Lathe, tmp_path: Path) -> None:
    write_scaffold(tmp_path / "theirs", {**AGENT, "scaffold.toml": DECLARED})
    theirs = begin(lathe, NewRun(scaffold=str(tmp_path / "theirs"), asked=Asked(suite_hash="")), time.time())
    ours = begin(lathe, NewRun(scaffold="plain", asked=Asked(suite_hash="")), time.time())
    rounds = [asked_of(lathe.store, case_id).plan(case_id).control_round for case_id in (theirs, ours)]
    assert rounds[0] == 0
    assert rounds[1] > 0
