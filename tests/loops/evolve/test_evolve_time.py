"""The time of an episode ends it, whatever already waits to be answered."""

import json
import socket
import time
from pathlib import Path

from loops.evolve.inside.supervisor import Episode
from loops.evolve.inside.tools import Tools

TASK = {"words": "", "files": {}, "submit": ["a.txt"], "visible": {}, "budget": {"wall_s": 0.0}}


def test_a_request_that_waits_is_not_answered_after_the_end(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    request = {"op": "tool", "name": "shell", "args": {"command": "true"}}
    with ours, theirs:
        theirs.sendall((json.dumps(request) + "\n").encode() * 3)
        episode = Episode({"task": TASK, "seed": 1}, tmp_path)
        episode.serve(ours, 0)
    assert (episode.ended, episode.trace) == ("out of time", [])


def test_no_tool_runs_past_the_end_of_its_episode(tmp_path: Path) -> None:
    tools = Tools(tmp_path, TASK, seed=1)
    assert tools.run("shell", {"command": "true"}).startswith("RAN exit=0")
    tools.end = time.monotonic()
    for command in ("sleep 60", "setsid sleep 3"):
        assert tools.run("shell", {"command": command}).startswith("RAN exit=124")
