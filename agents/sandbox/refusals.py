"""What a person can do when the kernel refuses a piece of the isolation."""

from __future__ import annotations

import errno
import os

from agents.sandbox.launcher.rootfs import NEW_ROOT
from contracts.errors import EnvironmentFault, LatheError, UserInputError

_USER_NAMESPACES = (
    "allow user namespaces: sysctl user.max_user_namespaces=10000; on Debian also kernel.unprivileged_userns_clone=1;"
    " on Ubuntu 24.04 kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for this Python;"
    " in a container, a seccomp profile that allows unshare and mount"
)
_REMEDIES = {
    "become": "run as root with CAP_SETUID and CAP_SETGID, or as an ordinary user",
    "namespaces": _USER_NAMESPACES,
    "maps": _USER_NAMESPACES,
    "mounts": "check that the source exists and can be reached; the sandbox needs Linux 5.14 or newer and the right to "
    "mount inside its namespaces: " + _USER_NAMESPACES,
    "root": "use Linux 5.14 or newer and put the sandbox folder on a file system with user attributes (ext4, xfs, "
    "btrfs), not on an overlay or NFS; " + _USER_NAMESPACES,
    "targets": _USER_NAMESPACES,
    "proc": "in a container, let /proc be mounted again: --security-opt systempaths=unconfined",
    "enter": _USER_NAMESPACES,
    "network": _USER_NAMESPACES,
    "confine": "use a kernel with CONFIG_SECCOMP_FILTER",
    "start": "mend what the message names: as root the launcher needs CAP_SETUID and CAP_SETGID; or free memory",
}


_NO_SUCH_PLACE = (errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.ENOENT, errno.EEXIST, errno.EINVAL)


def refusal(stage: str, number: int, what: str) -> LatheError:
    """The error for a refused stage of `launcher.init`."""
    reason = os.strerror(number) if number else "no reason given"
    if stage == "targets" and number in _NO_SUCH_PLACE:
        return UserInputError(
            f"nothing can be mounted at {what.removeprefix(NEW_ROOT)}: {reason}",
            remedy="let no mount's target lie inside another mount, unless that holds the same kind of thing there",
        )
    return EnvironmentFault(
        f"this machine cannot isolate untrusted code: step '{stage}' failed on {what}: {reason}",
        remedy=_REMEDIES[stage] + ". Or let a person allow UnsafeSubprocess, which isolates nothing.",
    )
