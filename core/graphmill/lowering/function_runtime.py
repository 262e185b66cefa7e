"""`FunctionLibraryRuntime`: instantiates and runs the functions of a graph (row E10).

Semantics: `tensorflow/core/common_runtime/function.cc`, on one device.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError, OpError, ResourceExhaustedError
from graphmill.graph.function_body import FunctionBody, instantiate_function
from graphmill.lowering.kernel_factory import KernelFactory
from graphmill.lowering.passes import run_passes
from graphmill.runtime.call_frame import CallFrame
from graphmill.runtime.executor import LocalExecutorParams
from graphmill.runtime.step_runner import StepRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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

    def run_async(
        self,
        handle: FunctionHandle,
        args: Sequence[Value],
        ctx: OpKernelContext,
        done: Callable[..., None],
    ) -> None:
        """Run a function in the step of `ctx`; call `done(results)` or `done(error=…)` at its end.

        `done` is called in the thread that drives the step, possibly before this returns.

        Raises:
            InvalidArgumentError: the number of arguments is wrong.
            ResourceExhaustedError: functions call each other more than `MAX_CALL_DEPTH` deep.
            OpError: the function's executor cannot be made.
        """
        executor, frame = self._prepare(handle, args, ctx)

        def finished(error: OpError | None) -> None:
            if error is None:
                error = _missing_result(handle.body, frame)
            if error is None:
                done(frame.retvals)
            else:
                done(error=error)

        executor.run_async(ctx.args.for_call(frame), finished)

    def run(
        self, handle: FunctionHandle, args: Sequence[Value], ctx: OpKernelContext
    ) -> list[Value]:
        """Run a function in the step of `ctx`, wait, and return its results.

        The calling kernel holds up the whole step meanwhile: for functions that wait for nothing
        that another node of the step does.

        Raises:
            OpError: see `run_async`, or a node of the function failed.
        """
        executor, frame = self._prepare(handle, args, ctx)
        call = ctx.args.for_call(frame)
        call.runner = StepRunner(ctx.args.runner.pool)
        executor.run(call)
        error = _missing_result(handle.body, frame)
        if error is not None:
            raise error
        return frame.retvals

    def _prepare(
        self, handle: FunctionHandle, args: Sequence[Value], ctx: OpKernelContext
    ) -> tuple[Executor, CallFrame]:
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
        return executor, CallFrame(args, len(body.ret_types))

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


def _missing_result(body: FunctionBody, frame: CallFrame) -> OpError | None:
    for index, value in enumerate(frame.retvals):
        if value is CallFrame.UNSET:
            return InvalidArgumentError(
                f"function '{body.name}': result {index} was not computed; it is in a branch that "
                "was not taken"
            )
    return None
