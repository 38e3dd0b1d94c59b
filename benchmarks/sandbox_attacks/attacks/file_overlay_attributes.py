"""Forges the attributes by which an overlay finds files in other layers, then looks in a fork."""

# phases: 2
from kit import *

if PHASE == 1:
    os.makedirs("a/b", exist_ok=True)
    open("a/f", "w").write("x")
    os.makedirs("c", exist_ok=True)
    for name in (
        "overlay.redirect",
        "overlay.opaque",
        "overlay.origin",
        "overlay.metacopy",
        "overlay.whiteout",
        "overlay.overlay.redirect",
    ):
        for space in ("user.", "trusted.", "security."):
            for target in ("a", "a/f", "c", "."):
                for value in (
                    SECRET_FILE.encode(),
                    b"/../../../../.." + SECRET_FILE.encode(),
                    b"y",
                    b"x",
                    STORE.encode(),
                ):
                    attempt(os.setxattr, target, space + name, value)
else:
    for top, _, files in os.walk("."):
        for name in files:
            show(os.path.join(top, name))
    show("a/" + os.path.basename(SECRET_FILE))
    show("c/secret")
    print(os.listdir("c"))
