"""`ThreadPools`: the thread pools for a session's expensive kernels (clause S2).

Semantics: `NewThreadPoolFromSessionOptions` and the constructor in
`tensorflow/core/common_runtime/direct_session.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError
from graphmill.runtime.threads.thread_pool import ThreadPool

if TYPE_CHECKING:
    from graphmill.plugin.host import Host
    from graphmill.proto.config_pb2 import ConfigProto

_CALLER_THREAD = -1


class ThreadPools:
    """The pools of one session: named pools, its own pool, or the pool that all sessions share.

    Args:
        config: `session_inter_op_thread_pool`, `use_per_session_threads` and
            `inter_op_parallelism_threads` select them; a negative number of threads means none, and
            so does `graphmill.deterministic`: in one thread nodes run in one order.
        host: keeps the pools that sessions share.

    Raises:
        InvalidArgumentError: one of several pools has a negative number of threads, with which
            TensorFlow ends the process.
    """

    def __init__(self, config: ConfigProto, host: Host) -> None:
        self._owned: list[ThreadPool] = []
        self._pools: list[ThreadPool | None] = []
        threads = config.inter_op_parallelism_threads
        if config.graphmill.deterministic:
            self._pools.append(None)
            return
        for index, options in enumerate(config.session_inter_op_thread_pool):
            if options.num_threads < 0:
                raise InvalidArgumentError(
                    f"session_inter_op_thread_pool[{index}].num_threads is {options.num_threads}; "
                    "give the number of threads, or 0 to have it chosen (to run steps in the "
                    "caller's thread, set RunOptions.inter_op_thread_pool to -1)"
                )
            if options.global_name:
                self._pools.append(host.thread_pools.get(options.global_name, options.num_threads))
            else:
                self._pools.append(self._own(options.num_threads))
        if self._pools:
            return
        if threads < 0:
            self._pools.append(None)
        elif config.use_per_session_threads:
            self._pools.append(self._own(threads))
        else:
            self._pools.append(host.thread_pools.get("", threads))

    @property
    def default(self) -> ThreadPool | None:
        """The default pool."""
        return self._pools[0]

    def get(self, index: int) -> ThreadPool | None:
        """Return the pool that `RunOptions.inter_op_thread_pool` selects; None for -1.

        Raises:
            InvalidArgumentError: the session has no pool with that index.
        """
        if index == _CALLER_THREAD:
            return None
        if not 0 <= index < len(self._pools):
            raise InvalidArgumentError(
                f"Invalid inter_op_thread_pool: {index}; the session has {len(self._pools)} "
                "pools, and -1 runs the step in the caller's thread"
            )
        return self._pools[index]

    def close(self) -> None:
        """End the threads that belong to this session alone."""
        for pool in self._owned:
            pool.close()

    def _own(self, num_threads: int) -> ThreadPool:
        pool = ThreadPool(num_threads, "graphmill-session")
        self._owned.append(pool)
        return pool
