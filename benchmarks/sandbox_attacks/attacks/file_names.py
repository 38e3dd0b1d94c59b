"""Names that break careless tools: newlines, dashes, bytes that are no text, dots, the longest."""

from kit import *

for name in (
    b"a\nb",
    b"-rf",
    b"--help",
    b"\xff\xfe",
    b"..\n",
    b". .",
    b"\x1b[2J",
    b"x" * 255,
    b"$(touch " + TOKEN.encode() + b")",
    b"`id`",
    b".removed-0",
    b"'\"",
    b"%s%n",
):
    attempt(lambda: open(name, "wb").write(b"x"))
    attempt(lambda: os.makedirs(b"d/" + name, exist_ok=True))
os.makedirs(b"work/work", exist_ok=True)
