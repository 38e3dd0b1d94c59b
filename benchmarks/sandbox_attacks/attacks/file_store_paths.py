"""Goes to the layers by the names that the mount table shows, and to the sandbox's own folder."""

import re
from kit import *

text = open("/proc/self/mountinfo").read()
names = re.findall(r"(?:lowerdir|upperdir|workdir)=([^,\s]+)", text) + [STORE, SIBLING_FILE]
for name in names:
    for part in name.split(":"):
        for path in (part, f"/{part}", f"{STORE}/{part}", f"/proc/1/cwd/{part}"):
            attempt(lambda: print(os.listdir(path)))
            attempt(show, path)
            leave(f"{path}/{TOKEN}")
