"""`host_identity`: identify processes that can share memory."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE: Final = Path("/proc/self/ns/pid")


@cache
def host_identity() -> bytes:
    """Return a digest of the running system, its process namespace and the user.

    Processes with the same digest see each other's open files in `/proc`. It is empty where that is
    not
    possible: on other systems than Linux, and without `/proc`.
    """
    if sys.platform != "linux":
        return b""
    try:
        boot_id = _BOOT_ID.read_text()
        namespace = _PID_NAMESPACE.readlink()
    except OSError:  # a container without it; messages do
        return b""
    return hashlib.sha256(f"{boot_id}{namespace} {os.geteuid()}".encode()).digest()[:16]
