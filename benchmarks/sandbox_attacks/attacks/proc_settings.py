"""Kernel settings through /proc/sys and friends."""

from kit import *

for path, text in (
    ("kernel/core_pattern", f"core-{TOKEN}"),
    ("kernel/hostname", TOKEN),
    ("kernel/domainname", TOKEN),
    ("kernel/modprobe", f"/tmp/{TOKEN}"),
    ("vm/overcommit_memory", "1"),
    ("vm/drop_caches", "1"),
    ("net/ipv4/ip_forward", "1"),
    ("kernel/threads-max", "50000"),
    ("user/max_user_namespaces", "0"),
):
    attempt(lambda: open(f"/proc/sys/{path}", "w").write(text))
attempt(lambda: open("/proc/sysrq-trigger", "w").write("h"))
attempt(lambda: open("/proc/self/oom_score_adj", "w").write("-1000"))
attempt(lambda: open("/proc/self/attr/current", "w").write("unconfined"))
