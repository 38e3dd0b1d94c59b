"""Folders so deep that no path reaches the bottom, with something in it."""

from kit import *

for _ in range(3000):
    try:
        os.mkdir("d" * 20)
        os.chdir("d" * 20)
    except OSError as error:
        print(error)
        break
open("bottom", "w").write("x")
