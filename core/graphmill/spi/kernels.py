"""Tools that some kernels need: shared memory, threads, collectives, per-step resources.

    from graphmill.spi.kernels import freeze, is_frozen

`kernel`, `OpKernelContext` and what every kernel needs are in `graphmill.spi` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.memory import freeze as freeze
    from graphmill.memory import is_frozen as is_frozen
    from graphmill.memory_budget import memory_limit as memory_limit
    from graphmill.memory_budget import request_memory as request_memory
    from graphmill.memory_budget import with_memory_limit as with_memory_limit
    from graphmill.plugin.functions import load_function as load_function
    from graphmill.runtime.collectives import COLLECTIVE_MEMBERS_ATTR as COLLECTIVE_MEMBERS_ATTR
    from graphmill.runtime.collectives import CollectiveExecutor as CollectiveExecutor
    from graphmill.runtime.collectives import CollectiveRequest as CollectiveRequest
    from graphmill.runtime.collectives import LocalCollectives as LocalCollectives
    from graphmill.runtime.debug_sinks import WatchedTensor as WatchedTensor
    from graphmill.runtime.debug_sinks import publish as publish
    from graphmill.runtime.kernels.kernel_errors import not_a_scalar as not_a_scalar
    from graphmill.runtime.kernels.op_kernel import NOT_NOW as NOT_NOW
    from graphmill.runtime.kernels.op_kernel import UNIQUE_INDICES as UNIQUE_INDICES
    from graphmill.runtime.resources.exclusive_update import writable as writable
    from graphmill.runtime.steps.current_step import cancellable as cancellable
    from graphmill.runtime.steps.current_step import check_cancelled as check_cancelled
    from graphmill.runtime.steps.frame_ids import ROOT_FRAME_ITERATION as ROOT_FRAME_ITERATION
    from graphmill.runtime.steps.step_container import StepContainer as StepContainer
    from graphmill.runtime.threads.thread_pool import ThreadPool as ThreadPool
    from graphmill.runtime.value_shape import dtype_of_value as dtype_of_value
    from graphmill.runtime.value_shape import has_dtype as has_dtype
    from graphmill.runtime.value_shape import num_bytes_of_value as num_bytes_of_value
    from graphmill.runtime.value_shape import shape_of_value as shape_of_value
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.memory": "freeze is_frozen",
            "graphmill.memory_budget": "memory_limit request_memory with_memory_limit",
            "graphmill.plugin.functions": "load_function",
            "graphmill.runtime.collectives": (
                "COLLECTIVE_MEMBERS_ATTR CollectiveExecutor CollectiveRequest LocalCollectives"
            ),
            "graphmill.runtime.debug_sinks": "WatchedTensor publish",
            "graphmill.runtime.resources.exclusive_update": "writable",
            "graphmill.runtime.kernels.op_kernel": "NOT_NOW UNIQUE_INDICES",
            "graphmill.runtime.kernels.kernel_errors": "not_a_scalar",
            "graphmill.runtime.steps.frame_ids": "ROOT_FRAME_ITERATION",
            "graphmill.runtime.steps.step_container": "StepContainer",
            "graphmill.runtime.steps.current_step": "cancellable check_cancelled",
            "graphmill.runtime.threads.thread_pool": "ThreadPool",
            "graphmill.runtime.value_shape": (
                "dtype_of_value has_dtype num_bytes_of_value shape_of_value"
            ),
        },
    )
