"""Links that leave the exported folder and come back by its name, which may be another folder's later."""

from kit import *

os.makedirs("a/b")
open("secret", "w").close()
os.symlink("../..", "a/b/up")
for depth in range(1, 5):
    os.symlink("../" * depth + f"export-{TOKEN}/secret", f"return-{depth}")
    os.symlink("a/b/up/" + "../" * depth + f"export-{TOKEN}/secret", f"through-{depth}")
    os.symlink(f"return-{depth}", f"again-{depth}")
