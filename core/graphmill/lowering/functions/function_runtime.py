"""`FunctionLibraryRuntime`: instantiates and runs the functions of a graph (clause E10).

Semantics: `tensorflow/core/common_runtime/function.cc`, and for bodies with nodes on several
devices `process_function_library_runtime.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import (
    CancelledError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
)
from graphmill.lowering.functions.function_bodies import lower_body
from graphmill.lowering.passes import run_passes
from graphmill.lowering.policies.node_effects import function_with_effects
from graphmill.ops.definition.effects import effects_of
from graphmill.runtime.executor import ExecutorBarrier
from graphmill.runtime.kernels.op_segment import StatefulKernels
from graphmill.runtime.process.fork import fork_safe_lock
from graphmill.runtime.steps.call_frame import CallFrame
from graphmill.runtime.steps.cancel_grace import CancellationGracePeriod
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill.runtime.steps.deadlock_detector import DeadlockDetector
from graphmill.runtime.steps.step_runner import StepRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphmill.dtypes import DType
    from graphmill.graph.functions.function_body import FunctionBody
    from graphmill.graph.functions.function_library import FunctionLibrary
    from graphmill.graph.graph import Graph
    from graphmill.lowering.partitioning.build_executors import PartitionMaker, PerPartition
    from graphmill.lowering.passes import PassOptions
    from graphmill.lowering.policies.effects_policy import EffectsPolicy
    from graphmill.plugin.host import Host
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.executor import ExecutorArgs
    from graphmill.runtime.kernels.op_kernel_context import OpKernelContext
    from graphmill.typing import Value

MAX_CALL_DEPTH = 1000
"""Limit on the depth of nested function calls."""
_CALLS_ON_STACK = 16
"""Limit on nested calls on Python's stack, of which each takes about a dozen frames; a deeper call
starts from the step's event loop."""


class FunctionHandle:
    """An instantiated function.

    Attributes:
        body: its graph.
        partitions: one for each device of the body's nodes; created at the first run, so a branch
            that is never taken needs no kernels.
        segment: the stateful kernels of its nodes, which all callers share.
        is_lowered: whether its nodes come from a graph on which all passes have already run.
        executor_type: the type of its executors; "" for that of the session.
        lowered: the body after the passes, for callers without an executor; created on first use.
    """

    __slots__ = (
        *("body", "executor_type", "is_lowered", "lock", "lowered", "partitions", "segment"),
    )

    def __init__(self, body: FunctionBody, *, is_lowered: bool, executor_type: str = "") -> None:
        self.body = body
        self.executor_type = executor_type
        self.is_lowered = is_lowered
        self.partitions: list[PerPartition] = []
        self.lowered: FunctionBody | None = None
        self.segment = StatefulKernels()
        self.lock = fork_safe_lock()


class FunctionLibraryRuntime:
    """The functions of one session on one device.

    Threads: `_lock` guards the handles; a handle's lock guards the creation of its executor.

    Attributes:
        closing: cancelled when the session closes, for callers of functions between steps.
    """

    def __init__(
        self,
        full_graph: Graph,
        device: Device,
        options: PassOptions,
        maker: PartitionMaker,
        peer: Callable[[Device], FunctionLibraryRuntime],
        family: dict[str, FunctionLibraryRuntime] | None = None,
    ) -> None:
        self._full_graph = full_graph
        self._device = device
        self._options = options
        self._maker = maker
        self._peer = peer
        self._lock = fork_safe_lock()
        self._handles: dict[tuple[str, frozenset[tuple[str, Any]], str], FunctionHandle] = {}
        self.closing = CancellationManager()
        self._family = {} if family is None else family

    @property
    def device(self) -> Device:
        """The device that functions run on."""
        return self._device

    def on_device(self, name: str) -> FunctionLibraryRuntime:
        """Return the runtime of the device with a full or partial name.

        Raises:
            InvalidArgumentError: the session has no such device, or the name is malformed.
        """
        matches = self._options.devices.matching(name)
        if not matches:
            available = ", ".join(device.name for device in self._options.devices)
            raise InvalidArgumentError(
                f"the session has no device {name!r}; available: {available}"
            )
        return self._peer(matches[0])

    @property
    def segment(self) -> StatefulKernels:
        """The stateful kernels of the nodes of the session's graph on the device."""
        return self._device.op_segment.of_session(self._options.session_handle)

    @property
    def library(self) -> FunctionLibrary:
        """The functions and their gradient functions."""
        return self._full_graph.library

    @property
    def host(self) -> Host:
        """The host of the session."""
        return self._options.host

    @property
    def effects(self) -> EffectsPolicy:
        """The session's policy for effects of kernels."""
        return self._options.effects

    def instantiate(
        self, name: str, attrs: Mapping[str, Any] | None = None, *, executor_type: str = ""
    ) -> FunctionHandle:
        """Return the handle of a function with some attrs; equal attrs share a handle.

        Args:
            name: the name of the function.
            attrs: its attrs.
            executor_type: the type of its executors; "" for that of the session.

        Raises:
            NotFoundError: the function does not exist.
            InvalidArgumentError: its body is malformed, a required attr is missing, or an argument
                is a reference: a call passes values.
        """
        library = self._full_graph.library
        declared = self._declared(name, attrs)
        key = (name, frozenset(declared.items()), executor_type)
        with self._lock:
            handle = self._handles.get(key)
        if handle is not None:
            return handle
        is_lowered = library.body(name) is not None
        body = function_with_effects(name, declared, library, self._options)
        _check_no_references(name, body.arg_types)
        new_handle = FunctionHandle(body, is_lowered=is_lowered, executor_type=executor_type)
        with self._lock:
            return self._handles.setdefault(key, new_handle)

    def body(self, name: str, attrs: Mapping[str, Any] | None = None) -> FunctionBody:
        """Return a copy of a function's body after the graph passes, as this device runs it.

        The passes are those for a body that an executor runs. But the body is not partitioned: the
        `POST_PARTITIONING` passes run on the whole body.

        Raises:
            OpError: as for `instantiate`, or a pass rejects the body.
        """
        library = self._full_graph.library
        stored_body = library.body(name)
        if stored_body is not None:
            return stored_body.copy(library)
        handle = self.instantiate(name, attrs)
        with handle.lock:
            if handle.lowered is None:
                declared = self._declared(name, attrs)
                body = function_with_effects(name, declared, library, self._options)
                lower_body(body.graph, self._device, self._options)
                run_passes("POST_PARTITIONING", body.graph, self._options)
                handle.lowered = body.without_lost_nodes()
        return handle.lowered.copy(library)

    def _declared(self, name: str, attrs: Mapping[str, Any] | None) -> dict[str, Any]:
        declared = self._full_graph.library.attr_names(name)
        return {key: value for key, value in (attrs or {}).items() if key in declared}

    def has_random_ops(self, name: str) -> bool:
        """Return whether a function or one that it calls has ops with their own random state.

        Raises:
            NotFoundError: the function does not exist.
        """
        library, seen, pending = self._full_graph.library, {name}, [name]
        while pending:
            for node in library.get(pending.pop()).node_def:
                if self._may_draw(node.op):
                    return True
                called = {node.op} if node.op in library else set()
                for value in node.attr.values():
                    called.update(f.name for f in (value.func, *value.list.func) if f.name)
                pending += called - seen
                seen |= called
        return False

    def draws_numbers(self, name: str) -> bool:
        """Return `has_random_ops(name)`: its old name."""
        from graphmill.deprecations import warn_renamed

        warn_renamed("FunctionLibraryRuntime.draws_numbers", "has_random_ops")
        return self.has_random_ops(name)

    def _may_draw(self, op: str) -> bool:
        if op in self.library or op not in self.host.ops:
            return False
        op_def = self.host.ops.get(op)
        kernels = self.host.kernels.registrations(op_def, self._device.backends)
        return "rng" in effects_of(op_def) or any(
            "rng" in entry.definition.effects for entry in kernels
        )

    def fresh(self) -> FunctionLibraryRuntime:
        """Return a runtime of the same functions with new kernels, and so with new kernel state.

        It is closed with this one; the caller may close it earlier.
        """
        family: dict[str, FunctionLibraryRuntime] = {}
        closing = CancellationManager(self.closing)

        def on(device: Device) -> FunctionLibraryRuntime:
            instance = family.get(device.name)
            if instance is None:
                runtime = FunctionLibraryRuntime(
                    self._full_graph, device, self._options, maker, on, family
                )
                runtime.closing = closing
                instance = family.setdefault(device.name, runtime)
            return instance

        maker = self._maker.with_functions(on)
        return on(self._device)

    def run_async(
        self,
        handle: FunctionHandle,
        args: Sequence[Value],
        ctx: OpKernelContext,
        done: Callable[..., None],
        iteration: int = -1,
    ) -> None:
        """Run a function in the step of `ctx`; call `done(results)` or `done(error=…)` at its end.

        `done` is called in the thread that drives the step, possibly before this returns.

        Args:
            handle: the function.
            args: its arguments.
            ctx: the context of the node that calls it.
            done: takes the results, or the error.
            iteration: the number of the iteration, if the node is a loop; -1 otherwise.

        Raises:
            InvalidArgumentError: the number of arguments is wrong.
            ResourceExhaustedError: functions call each other more than `MAX_CALL_DEPTH` deep.
            OpError: the function's executor cannot be created.
        """
        partitions, frame = self._prepare(handle, args, ctx)

        def finished(error: OpError | None) -> None:
            if error is None:
                error = _missing_result(handle.body, frame)
            if error is None:
                done(frame.retvals)
            else:
                done(error=error)

        call = ctx.args.for_call(frame)
        if call.stats_collector is not None:
            call.iteration = _iterations_of_call(ctx, iteration)
        if call.call_depth % _CALLS_ON_STACK:
            self._start(partitions, call, finished)
        else:
            call.runner.post(lambda: self._start(partitions, call, finished))

    def run(
        self, handle: FunctionHandle, args: Sequence[Value], ctx: OpKernelContext
    ) -> list[Value]:
        """Run a function in the step of `ctx` synchronously, and return its results.

        This blocks the whole step, so the function must not wait for other nodes of the step.

        Raises:
            OpError: see `run_async`, or a node of the function failed.
        """
        partitions, frame = self._prepare(handle, args, ctx)
        call = ctx.args.for_call(frame)
        call.runner = StepRunner(ctx.args.runner.pool)
        if call.stats_collector is not None:
            call.iteration = _iterations_of_call(ctx)
        outcome: list[OpError | None] = []
        self._start(partitions, call, outcome.append)
        if not outcome:
            with CancellationGracePeriod(call, [item.executor for item in partitions]):
                call.runner.run_until(lambda: bool(outcome))
        error = outcome[0] or _missing_result(handle.body, frame)
        if error is not None:
            raise error
        return frame.retvals

    def _prepare(
        self, handle: FunctionHandle, args: Sequence[Value], ctx: OpKernelContext
    ) -> tuple[list[PerPartition], CallFrame]:
        body = handle.body
        if len(args) != len(body.arg_types):
            raise InvalidArgumentError(
                f"function '{body.name}' takes {len(body.arg_types)} arguments, got {len(args)}"
            )
        if ctx.args.call_depth >= MAX_CALL_DEPTH:
            raise ResourceExhaustedError(
                f"function calls are nested more than {MAX_CALL_DEPTH} deep; the innermost is "
                f"'{body.name}'. The recursion may be infinite; write deep recursions as a While "
                f"loop"
            )
        partitions = handle.partitions or self._make_partitions(handle)
        return partitions, CallFrame(args, len(body.ret_types))

    def _start(
        self,
        partitions: Sequence[PerPartition],
        args: ExecutorArgs,
        done: Callable[[OpError | None], None],
    ) -> None:
        """Start a call; partitions on several devices get a new rendezvous."""
        if len(partitions) == 1:
            partitions[0].executor.run_async(args, done)
            return
        args.rendezvous = self._options.new_rendezvous(args.step_id)
        watch = DeadlockDetector(args)

        def all_done(error: OpError | None) -> None:
            watch.stop()
            done(error)

        watch.start()
        barrier = ExecutorBarrier(len(partitions), args, all_done)
        for item in partitions:
            item.executor.run_async(args, barrier.partition_done)

    def close(self) -> None:
        """Discard all instantiated functions; cancel callers between steps."""
        self.closing.start_cancel(CancelledError("Session has been closed."))
        self.host.background.forget(self, wait=False)  # compilers use nothing that is freed
        with self._lock:
            handles = list(self._handles.values())
            self._handles.clear()
        for handle in handles:
            handle.segment.clear()
            for item in handle.partitions:
                item.executor.close()
        self.closing.close()
        while self._family:
            _, other = self._family.popitem()
            if other is not self:
                other.close()

    def _make_partitions(self, handle: FunctionHandle) -> list[PerPartition]:
        with handle.lock:
            if not handle.partitions:
                graph = handle.body.graph
                kind = handle.executor_type
                maker = self._maker.with_executor(kind) if kind else self._maker
                handle.partitions = maker.for_function(
                    graph, self._device, handle.segment, is_lowered=handle.is_lowered
                )
            return handle.partitions


def _check_no_references(name: str, types: Sequence[DType]) -> None:
    for index, dtype in enumerate(types):
        if dtype.is_ref:
            raise InvalidArgumentError(
                f"argument {index} of the function '{name}' is a reference ({dtype}), but a call "
                "passes values; declare the argument without is_ref"
            )


def _iterations_of_call(ctx: OpKernelContext, number: int = -1) -> str:
    """Return the iterations around a call: those of its node, and that of the node if it loops."""
    own = "" if number < 0 else f"{ctx.node_name}:{number}"
    return "/".join(filter(None, (ctx.args.iteration, ctx.iteration_name, own)))


def _missing_result(body: FunctionBody, frame: CallFrame) -> OpError | None:
    for index, value in enumerate(frame.retvals):
        if value is CallFrame.UNSET:
            return InvalidArgumentError(
                f"function '{body.name}': result {index} was not computed; it is in a branch that "
                "was not taken"
            )
    return None
