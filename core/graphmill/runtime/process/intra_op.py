"""`intra_op_parallelism_threads`: the number of threads that compute one kernel.

As in TensorFlow, the threads belong to the process, so the first session that sets the option
decides for all.
"""

from __future__ import annotations

import os
import threading
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from graphmill.runtime.process.blas_threads import find_blas_threads
from graphmill.runtime.process.effects import INTRA_OP_THREADS
from graphmill.runtime.process.environment import variables_set

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_XLA_VARIABLE: Final = "NPROC"  # XLA's CPU client starts this many threads


class IntraOpThreads:
    """The limit of threads for one kernel.

    Threads: `_lock` guards the limit, which is set once.

    Attributes:
        limit: the maximum number of threads, the caller's included; 0 for no limit.
    """

    def __init__(self) -> None:
        self.limit = 0
        self._lock = threading.Lock()

    def set_limit(self, limit: int) -> None:
        """Limit the threads of our own kernels and of OpenBLAS, unless a session did so before.

        Args:
            limit: at least 1.
        """
        if not INTRA_OP_THREADS.is_enabled:
            return
        with self._lock:
            is_first, self.limit = not self.limit, self.limit or limit
        if is_first:
            blas = find_blas_threads()
            if blas is not None:
                blas.limit(limit)
        elif self.limit != limit:
            warnings.warn(
                f"intra_op_parallelism_threads={limit} has no effect: kernels in this process use "
                f"{self.limit} threads, as requested by the first session that set this option",
                RuntimeWarning,
                stacklevel=2,
            )

    def of_xla(self) -> AbstractContextManager[None]:
        """Return a context in which XLA's CPU client starts no more threads than the limit."""
        if not self.limit or _XLA_VARIABLE in os.environ:
            return nullcontext()
        return variables_set(INTRA_OP_THREADS, {_XLA_VARIABLE: str(self.limit)})


INTRA_OP: Final = IntraOpThreads()
"""The number of threads that compute one kernel, for this process."""
