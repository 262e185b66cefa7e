"""Short turns: how long a thread may hold Python's lock while another one works behind it.

A thread that computes gives the lock up every 5 ms only. One that imports modules or compiles asks
for it again after every file that it looks at, thousands of times: behind a loop of steps it would
get on so slowly that its work is never done. While it works, turns are shorter.
"""

from __future__ import annotations

import sys
import threading
from typing import Final

_SECONDS: Final = 0.0001


class ShortTurns:
    """Makes turns short until the last of the blocks ends that were entered.

    The interval is the process's (`sys.setswitchinterval`). One that is shorter already stays, and
    one that the program sets meanwhile counts.

    Threads: `_lock` guards the count.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0.0
        self._ours = 0.0

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, _SECONDS))
                self._ours = sys.getswitchinterval()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users and sys.getswitchinterval() == self._ours:
                sys.setswitchinterval(self._before)


SHORT_TURNS: Final = ShortTurns()
"""The one of this process, as the interval is."""
