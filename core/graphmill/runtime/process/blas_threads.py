"""Limit OpenBLAS to one thread while graphmill computes a product on its own (decision 0012).

This supports the OpenBLAS builds of NumPy's wheels and of Linux distributions. With another library
(Accelerate, MKL) nothing is changed, and its own threads compute the product.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphmill.runtime.process import effects, fork

if TYPE_CHECKING:
    from collections.abc import Callable

_MAPS: Final = "/proc/self/maps"
_NAMES: Final = tuple(
    f"{prefix}openblas_{{}}_num_threads{suffix}"
    for prefix in ("scipy_", "")
    for suffix in ("64_", "_64", "")
)


class _Threads(NamedTuple):
    """Functions that read and set the library's number of threads."""

    get: Callable[[], int]
    set: Callable[[int], object]


class SingleThreaded:
    """Counts the blocks in which BLAS uses one thread; the end of the last one restores its number.

    Threads: `_lock` guards the count; only products that OpenBLAS would distribute take it.
    """

    def __init__(self, threads: _Threads) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._users = 0
        self._previous_number = 1
        fork.track_forks(self)

    def __enter__(self) -> None:
        """Use one thread for each product until the block ends."""
        with self._lock:
            if self._users == 0:
                self._previous_number = self._threads.get()
                self._threads.set(1)
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._threads.set(self._previous_number)

    def limit(self, number: int) -> None:
        """Use no more threads than `number` from now on."""
        with self._lock:
            if self._users:
                self._previous_number = min(self._previous_number, number)
            else:
                self._threads.set(min(self._threads.get(), number))

    def after_fork_in_child(self) -> None:
        """Restore the number: the threads that limited it are not in this process."""
        self._lock = threading.Lock()
        if self._users:
            self._users = 0
            self._threads.set(self._previous_number)


@cache
def find_blas_threads(package: str = "numpy") -> SingleThreaded | None:
    """Return the control of the OpenBLAS that a package uses; None if there is none.

    Args:
        package: "numpy" or "scipy". The wheels of both contain an OpenBLAS; elsewhere they share
            one. The package must be loaded: the answer is kept.
    """
    if not effects.BLAS_THREADS.is_enabled:
        return None
    paths = _loaded_libraries()
    own = [path for path in paths if f"/{package}.libs/" in path]
    return next(filter(None, map(_control_of, own or paths)), None)


@cache
def _control_of(path: str) -> SingleThreaded | None:
    """Return the control of a library: one shared object, because it counts the blocks."""
    import ctypes  # here: only a graph with large products needs it

    try:
        library = ctypes.CDLL(path)
    except OSError:
        return None
    threads = _threads_of(library)
    return None if threads is None else SingleThreaded(threads)


def _loaded_libraries() -> list[str]:
    try:
        with open(_MAPS, encoding="utf-8", errors="replace") as maps:  # noqa: PTH123 - a system file
            lines = [line.split(maxsplit=5) for line in maps]
    except OSError:  # not Linux
        return []
    paths = dict.fromkeys(fields[5].strip() for fields in lines if len(fields) > 5)
    return [path for path in paths if "openblas" in path.rpartition("/")[2].lower()]


def _threads_of(library: Any) -> _Threads | None:
    for name in _NAMES:
        get = getattr(library, name.format("get"), None)
        set_ = getattr(library, name.format("set"), None)
        if get is not None and set_ is not None:
            return _Threads(get, set_)
    return None
