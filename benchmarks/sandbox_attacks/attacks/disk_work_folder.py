"""The overlay's own work folder, and a workspace without rights for those who clean up."""

# phases: 2
from kit import *

for path in ("/workspace/../work", "work", "/workspace/work/work"):
    attempt(os.listdir, path)
os.makedirs("a/b/c", exist_ok=True)
for path in ("a/b/c", "a/b", "a", "."):
    attempt(os.chmod, path, 0)
