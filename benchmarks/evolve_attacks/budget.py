"""Wants more than the budget: requests that name what is not its to choose, that lie, that flood."""

import json
import os
import threading
import time

ASK = {"op": "ask", "view": [{"role": "user", "text": "x"}], "tools": ["submit"], "temperature": 0.5}
VARIANTS = [
    {"budget": {"asks": 1000}},
    {"model": "larger"},
    {"effort": "high"},
    {"temperature": 99},
    {"temperature": -1},
    {"asks": -5},
    {"temperature": "nan"},
    {"temperature": None},
    {"view": "text"},
    {"view": [{"text": -1}]},
    {"view": [[]]},
    {"tools": None},
    {"op": "refund"},
    {"op": "__init__"},
    {"op": "tool", "name": "_run", "args": {"command": "true"}},
    {"op": "tool", "name": "__class__", "args": {}},
    {
        "op": "tool",
        "name": "edit",
        "args": {"path": "../../inputs/lathe/loops/evolve/inside/budget.py", "line": 1, "text": "left"},
    },
    {"op": "tool", "name": "read_file", "args": {"path": "/proc/self/environ"}},
    "many asks",
    "parallel",
    "flood",
    "no newline",
    "deep",
    "binary",
    "after the end",
    "requests in a row",
    "never reads",
    "streams held open",
]
ROWS = {
    "requests in a row": ("sleep 9", 80),
    "never reads": ("yes | head -c 2900", 80),
    "streams held open": ("setsid sleep 1000", 80),
}


def attack(desk, variant):
    file = desk._file
    if isinstance(variant, dict):
        send(file, {**ASK, **variant} if variant.get("op") in (None, "refund", "__init__") else variant)
        many(desk, 60)
    elif variant == "many asks":
        many(desk, 500)
    elif variant == "parallel":
        threads = [threading.Thread(target=many, args=(desk, 60)) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    elif variant == "flood":
        for _ in range(200):
            file.write(json.dumps({**ASK, "view": [{"role": "user", "text": "y" * 100_000}]}) + "\n")
    elif variant == "no newline":
        os.write(file.fileno(), b"z" * (1 << 20))
    elif variant == "deep":
        file.write("[" * 50_000 + "]" * 50_000 + "\n")
        file.flush()
    elif variant == "binary":
        os.write(file.fileno(), bytes(range(256)) * 40 + b"\n")
    elif variant in ROWS:
        command, number = ROWS[variant]
        request = {"op": "tool", "name": "shell", "args": {"command": command}}
        file.write((json.dumps(request) + "\n") * number)
        file.flush()
        time.sleep(1000)
    elif variant == "after the end":
        try:
            many(desk, 100)
        except Exception:
            many(desk, 100)


def many(desk, number):
    for _ in range(number):
        desk.ask(ASK["view"], ["submit"], 0.5)


def send(file, request):
    file.write(json.dumps(request) + "\n")
    file.flush()
    file.readline()
