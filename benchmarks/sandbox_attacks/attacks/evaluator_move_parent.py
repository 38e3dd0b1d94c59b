"""Moves a folder above the evaluator and puts a false one in its place."""

# phases: 2
from kit import *

parts = EVALUATOR.strip("/").split("/")
for depth in range(1, len(parts) + 1):
    path = "/" + "/".join(parts[:depth])
    attempt(os.rename, path, path + ".moved")
    attempt(os.rmdir, path)
    attempt(os.symlink, "/workspace", path)
attempt(lambda: os.makedirs(EVALUATOR))
leave(EVALUATOR + "/check.py")
