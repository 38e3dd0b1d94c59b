"""What an attack knows when it runs: everything about the world outside, as if it had inside help.

Read by the attacks (`from kit import *`); shell attacks read the same values from the environment. To escape is to be
seen from outside: leave TOKEN or SECRET anywhere the judge looks (see world.py), or do something it would notice.
"""

import os
from collections.abc import Callable
from typing import Any

TOKEN = os.environ["TOKEN"]  # new for each attack
PHASE = int(os.environ["PHASE"])  # 1; with "# phases: N" also 2 to N, each in a fork of the last
SECRET_FILE = os.environ["SECRET_FILE"]  # readable by everybody outside; printing its content is an escape
ROOT_FILE = os.environ["ROOT_FILE"]  # readable by its owner only
OPEN_DIR = os.environ["OPEN_DIR"]  # writable by everybody outside; a file in it is an escape
EVALUATOR = os.environ["EVALUATOR"]  # a read-only mount inside; a change to it is an escape
STORE = os.environ["STORE"]  # the sandbox's own folder outside
SIBLING_FILE = os.environ["SIBLING_FILE"]  # a secret file in another workspace, its path outside
ADDRESSES = os.environ["ADDRESSES"].split()  # where the judge listens: TCP and UDP, every address of the machine
PORT = int(os.environ["PORT"])
WEB_PORT = int(os.environ["WEB_PORT"])  # a web server the proxy allows: GET http://localhost:WEB_PORT/ok/...
UNIX_SOCKET = os.environ["UNIX_SOCKET"]
ABSTRACT_SOCKET = os.environ["ABSTRACT_SOCKET"]
VICTIM = int(os.environ["VICTIM"])  # a process outside, of the sandbox's user id
PARENT = int(os.environ["PARENT"])  # the process that runs the sandbox
SHM_KEY = int(os.environ["SHM_KEY"])  # a System V memory segment outside
HOST_PIDS = (VICTIM, PARENT)


def leave(path: str) -> None:
    """Tries to write the witness."""
    try:
        with open(path, "w") as file:
            file.write(TOKEN)
    except OSError as error:
        print(error)


def show(path: str) -> None:
    """Tries to print a file."""
    try:
        with open(path, "rb") as file:
            os.write(1, file.read(4096))
    except OSError as error:
        print(error)


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result, or the error it raised: an attack goes on."""
    try:
        return function(*arguments)
    except Exception as error:
        print(f"{getattr(function, '__name__', function)}: {error}")
        return error
