"""End this process when its parent ends."""

from __future__ import annotations

import os
import signal
from typing import Final

_F_SETSIG: Final = 10  # Linux; Python's fcntl does not name it


def die_with_parent(lifeline: int) -> None:
    """Let the system kill this process when the other end of a pipe is closed.

    It needs no thread, so it works while a kernel keeps the interpreter busy; and unlike
    PR_SET_PDEATHSIG it depends on the parent process, not on the thread that started the child.

    Args:
        lifeline: the reading end of a pipe, to which the parent never writes.
    """
    import fcntl

    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    if _is_closed(lifeline):  # before the signal was set
        os.kill(os.getpid(), signal.SIGKILL)


def _is_closed(pipe: int) -> bool:
    try:
        return os.read(pipe, 1) == b""
    except BlockingIOError:
        return False
