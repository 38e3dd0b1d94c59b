"""Other processes' roots and current folders through /proc."""

# control: yes
from kit import *

for pid in (1, 2, "self", *HOST_PIDS):
    for way in ("root", "cwd", "task/%s/root" % pid):
        show(f"/proc/{pid}/{way}{SECRET_FILE}")
        show(f"/proc/{pid}/{way}/../../../..{SECRET_FILE}")
