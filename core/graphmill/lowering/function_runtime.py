"""`FunctionLibraryRuntime`: instantiates and runs the functions of a graph (row E10).

Semantics: `tensorflow/core/common_runtime/function.cc`, on one device.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from graphmill.errors import InternalError, InvalidArgumentError, ResourceExhaustedError
from graphmill.graph.function_body import FunctionBody, instantiate_function
from graphmill.lowering.kernel_factory import KernelFactory
from graphmill.lowering.passes import run_passes
from graphmill.runtime.call_frame import CallFrame
from graphmill.runtime.executor import LocalExecutorParams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.graph.graph import Graph
    from graphmill.lowering.passes import PassOptions
    from graphmill.runtime.device import Device
    from graphmill.runtime.executor import Executor, ExecutorFactory
    from graphmill.runtime.op_kernel_context import OpKernelContext
    from graphmill.typing import Value

MAX_CALL_DEPTH = 100
"""How deeply functions may call each other; a call takes about six frames of Python's stack."""


class FunctionHandle:
    """An instantiated function.

    Attributes:
        body: its graph.
        executor: made at the first run, so that a branch that is never taken needs no kernels.
    """

    __slots__ = ("body", "executor", "lock")

    def __init__(self, body: FunctionBody) -> None:
        self.body = body
        self.executor: Executor | None = None
        self.lock = threading.Lock()


class FunctionLibraryRuntime:
    """The functions of one session on one device.

    Threads: `_lock` guards the handles; a handle's lock guards the making of its executor.
    """

    def __init__(
        self,
        full_graph: Graph,
        device: Device,
        executor_factory: ExecutorFactory,
        options: PassOptions,
    ) -> None:
        self._full_graph = full_graph
        self._device = device
        self._executor_factory = executor_factory
        self._options = options
        self._lock = threading.Lock()
        self._handles: dict[tuple[str, frozenset[tuple[str, Any]]], FunctionHandle] = {}

    @property
    def device(self) -> Device:
        """The device that functions run on."""
        return self._device

    def instantiate(self, name: str, attrs: Mapping[str, Any] | None = None) -> FunctionHandle:
        """Return a handle of a function for some attrs; the same one for the same attrs.

        Raises:
            NotFoundError: there is no such function.
            InvalidArgumentError: its body is malformed, or an attr that it needs is missing.
        """
        library = self._full_graph.library
        declared = {attr.name for attr in library.signature(name).attrs}
        given = {key: value for key, value in (attrs or {}).items() if key in declared}
        key = (name, frozenset(given.items()))
        with self._lock:
            found = self._handles.get(key)
        if found is not None:
            return found
        made = FunctionHandle(instantiate_function(name, given, library, self._options.host.ops))
        with self._lock:
            return self._handles.setdefault(key, made)

    def run(
        self, handle: FunctionHandle, args: Sequence[Value], ctx: OpKernelContext
    ) -> list[Value]:
        """Run a function in the step of `ctx` and return its results.

        Raises:
            InvalidArgumentError: the number of arguments is wrong.
            ResourceExhaustedError: functions call each other more than `MAX_CALL_DEPTH` deep.
            OpError: a node of the function failed.
        """
        body = handle.body
        if len(args) != len(body.arg_types):
            raise InvalidArgumentError(
                f"function '{body.name}' takes {len(body.arg_types)} arguments, {len(args)} given"
            )
        if ctx.args.call_depth >= MAX_CALL_DEPTH:
            raise ResourceExhaustedError(
                f"functions call each other more than {MAX_CALL_DEPTH} deep; the last is "
                f"'{body.name}'. A recursion that does not end, or one that wants to be a While"
            )
        executor = handle.executor or self._make_executor(handle)
        frame = CallFrame(args, len(body.ret_types))
        executor.run(ctx.args.for_call(frame))
        for index, value in enumerate(frame.retvals):
            if value is CallFrame.UNSET:
                raise InternalError(f"function '{body.name}' did not compute result {index}")
        return frame.retvals

    def close(self) -> None:
        """Drop all instantiated functions."""
        with self._lock:
            handles = list(self._handles.values())
            self._handles.clear()
        for handle in handles:
            if handle.executor is not None:
                handle.executor.close()

    def _make_executor(self, handle: FunctionHandle) -> Executor:
        with handle.lock:
            if handle.executor is None:
                graph = handle.body.graph
                for node in graph.nodes:
                    node.assigned_device = self._device.name
                run_passes("POST_REWRITE_FOR_EXEC", graph, self._options)
                factory = KernelFactory(self._options.host, self._device, self, op_segment=False)
                factory.choose_all(graph)
                params = LocalExecutorParams(self._device, factory.create, function_library=self)
                handle.executor = self._executor_factory.new_executor(params, graph)
            return handle.executor
