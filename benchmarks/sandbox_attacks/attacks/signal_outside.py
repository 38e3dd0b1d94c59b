"""Signals to the victim, to whoever started the sandbox, and to groups."""

# control: yes
import signal
from kit import *

for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGCONT):
    attempt(os.kill, VICTIM, number)
    attempt(os.killpg, VICTIM, number)
