"""Process-wide state: signals, forks, finalizers, BLAS threads, and effects users can disable.

    from graphmill.spi.process import DeferredInterrupt, warnings_ignored

The user can disable every effect on the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.runtime.process.blas_threads import SingleThreaded as SingleThreaded
    from graphmill.runtime.process.blas_threads import find_blas_threads as find_blas_threads
    from graphmill.runtime.process.defer_sigint import DeferredInterrupt as DeferredInterrupt
    from graphmill.runtime.process.effects import JAX_DISPATCH as JAX_DISPATCH
    from graphmill.runtime.process.effects import JAX_GPU_MEMORY as JAX_GPU_MEMORY
    from graphmill.runtime.process.effects import ProcessEffect as ProcessEffect
    from graphmill.runtime.process.environment import variables_set as variables_set
    from graphmill.runtime.process.event_log import DEBUG as DEBUG
    from graphmill.runtime.process.event_log import INFO as INFO
    from graphmill.runtime.process.event_log import is_logged as is_logged
    from graphmill.runtime.process.event_log import listen as listen
    from graphmill.runtime.process.event_log import log_event as log_event
    from graphmill.runtime.process.event_log import stop_listening as stop_listening
    from graphmill.runtime.process.fork import ForkAware as ForkAware
    from graphmill.runtime.process.fork import deferred_forks as deferred_forks
    from graphmill.runtime.process.fork import fork_safe_lock as fork_safe_lock
    from graphmill.runtime.process.fork import never_destroy as never_destroy
    from graphmill.runtime.process.fork import track_forks as track_forks
    from graphmill.runtime.process.fork import watch_forks as watch_forks
    from graphmill.runtime.process.intra_op import INTRA_OP as INTRA_OP
    from graphmill.runtime.process.intra_op import IntraOpThreads as IntraOpThreads
    from graphmill.runtime.process.malloc import keep_freed_memory as keep_freed_memory
    from graphmill.runtime.process.references import references_in as references_in
    from graphmill.runtime.process.warning_filters import warnings_ignored as warnings_ignored
    from graphmill.runtime.threads.finalizer_thread import call_when_dropped as call_when_dropped
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.runtime.process.blas_threads": "SingleThreaded find_blas_threads",
            "graphmill.runtime.process.defer_sigint": "DeferredInterrupt",
            "graphmill.runtime.process.effects": "JAX_DISPATCH JAX_GPU_MEMORY ProcessEffect",
            "graphmill.runtime.process.environment": "variables_set",
            "graphmill.runtime.process.event_log": (
                "DEBUG INFO is_logged listen log_event stop_listening"
            ),
            "graphmill.runtime.process.fork": (
                "ForkAware deferred_forks fork_safe_lock never_destroy track_forks watch_forks"
            ),
            "graphmill.runtime.process.intra_op": "INTRA_OP IntraOpThreads",
            "graphmill.runtime.process.malloc": "keep_freed_memory",
            "graphmill.runtime.process.references": "references_in",
            "graphmill.runtime.process.warning_filters": "warnings_ignored",
            "graphmill.runtime.threads.finalizer_thread": "call_when_dropped",
        },
    )
