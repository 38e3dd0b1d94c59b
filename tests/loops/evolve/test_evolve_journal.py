"""The journal of a run in a folder: what was said first stays, and a line that a crash cut off is dropped."""

from pathlib import Path

from loops.evolve.journal import FolderJournal


def test_what_was_said_first_stays_and_survives(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = FolderJournal(path)
    journal.put("decision", "1", {"kept": True, "moves": ("a",)})
    journal.put("decision", "1", {"kept": False})
    assert journal.get("decision", "1") == {"kept": True, "moves": ["a"]}
    assert FolderJournal(path).list("decision") == journal.list("decision")


def test_a_line_that_a_crash_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    FolderJournal(path).put("block", "1/0", {"base": [1.0]})
    with path.open("ab") as file:
        file.write(b'{"kind": "block", "key": "1/1", "bo')
    journal = FolderJournal(path)
    assert [key for key, _ in journal.list("block")] == ["1/0"]
    journal.put("block", "1/1", {"base": [0.0]})
    assert [key for key, _ in FolderJournal(path).list("block")] == ["1/0", "1/1"]
