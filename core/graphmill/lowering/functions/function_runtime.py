"""`FunctionLibraryRuntime`: instantiates and runs the functions of a graph (row E10).

Semantics: `tensorflow/core/common_runtime/function.cc`, and for bodies whose nodes ask for several
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
"""How deeply functions may call each other."""
_CALLS_ON_STACK = 16
"""Every so many calls one begins from the step's event loop, so that Python's stack stays short: a
call takes about a dozen of its frames, and it is not ours alone."""


class FunctionHandle:
    """An instantiated function.

    Attributes:
        body: its graph.
        partitions: made at the first run, so that a branch that is never taken needs no kernels;
            one for each device that nodes of the body are on.
        segment: the stateful kernels of its nodes, which all share who run the function.
        is_lowered: whether its nodes were those of a graph that all passes have seen.
        lowered: the body for whoever computes it without an executor; None until one asks.
    """

    __slots__ = ("body", "is_lowered", "lock", "lowered", "partitions", "segment")

    def __init__(self, body: FunctionBody, *, is_lowered: bool) -> None:
        self.body = body
        self.is_lowered = is_lowered
        self.partitions: list[PerPartition] = []
        self.lowered: FunctionBody | None = None
        self.segment = StatefulKernels()
        self.lock = fork_safe_lock()


class FunctionLibraryRuntime:
    """The functions of one session on one device.

    Threads: `_lock` guards the handles; a handle's lock guards the making of its executor.

    Attributes:
        closing: cancelled when the session closes, for what calls functions between steps.
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
        self._handles: dict[tuple[str, frozenset[tuple[str, Any]]], FunctionHandle] = {}
        self.closing = CancellationManager()
        self._family = {} if family is None else family

    @property
    def device(self) -> Device:
        """The device that functions run on."""
        return self._device

    def on_device(self, name: str) -> FunctionLibraryRuntime:
        """Return the runtime of the device that a whole or partial name means.

        Raises:
            InvalidArgumentError: the session has no such device, or the name is malformed.
        """
        found = self._options.devices.matching(name)
        if not found:
            known = ", ".join(device.name for device in self._options.devices)
            raise InvalidArgumentError(f"the session has no device {name!r}; it has {known}")
        return self._peer(found[0])

    @property
    def segment(self) -> StatefulKernels:
        """The stateful kernels of the nodes of the session's graph on the device."""
        return self._device.op_segment.of_session(self._options.session_handle)

    @property
    def library(self) -> FunctionLibrary:
        """The functions, and which of them are gradients of which."""
        return self._full_graph.library

    @property
    def host(self) -> Host:
        """The host of the session."""
        return self._options.host

    @property
    def effects(self) -> EffectsPolicy:
        """Which effects the kernels of the session may have."""
        return self._options.effects

    def instantiate(self, name: str, attrs: Mapping[str, Any] | None = None) -> FunctionHandle:
        """Return a handle of a function for some attrs; the same one for the same attrs.

        Raises:
            NotFoundError: there is no such function.
            InvalidArgumentError: its body is malformed, or an attr that it needs is missing.
        """
        library = self._full_graph.library
        given = self._declared(name, attrs)
        key = (name, frozenset(given.items()))
        with self._lock:
            found = self._handles.get(key)
        if found is not None:
            return found
        is_lowered = library.body(name) is not None
        body = function_with_effects(name, given, library, self._options)
        made = FunctionHandle(body, is_lowered=is_lowered)
        with self._lock:
            return self._handles.setdefault(key, made)

    def body(self, name: str, attrs: Mapping[str, Any] | None = None) -> FunctionBody:
        """Return the body of a function as it runs on this device, the caller's to change.

        The graph passes have seen it as they see one that an executor runs. It is not partitioned:
        the passes after that see it as a whole.

        Raises:
            OpError: as `instantiate`, or a pass refused the body.
        """
        library = self._full_graph.library
        made = library.body(name)
        if made is not None:
            return made.copy(library)
        handle = self.instantiate(name, attrs)
        with handle.lock:
            if handle.lowered is None:
                given = self._declared(name, attrs)
                body = function_with_effects(name, given, library, self._options)
                lower_body(body.graph, self._device, self._options)
                run_passes("POST_PARTITIONING", body.graph, self._options)
                handle.lowered = body.without_lost_nodes()
        return handle.lowered.copy(library)

    def _declared(self, name: str, attrs: Mapping[str, Any] | None) -> dict[str, Any]:
        declared = self._full_graph.library.attr_names(name)
        return {key: value for key, value in (attrs or {}).items() if key in declared}

    def draws_numbers(self, name: str) -> bool:
        """Return whether a function, or one that it calls, has ops with random states of their own.

        Raises:
            NotFoundError: there is no such function.
        """
        library, seen, left = self._full_graph.library, {name}, [name]
        while left:
            for node in library.get(left.pop()).node_def:
                if self._may_draw(node.op):
                    return True
                called = {node.op} if node.op in library else set()
                for value in node.attr.values():
                    called.update(f.name for f in (value.func, *value.list.func) if f.name)
                left += called - seen
                seen |= called
        return False

    def _may_draw(self, op: str) -> bool:
        if op in self.library or op not in self.host.ops:
            return False
        op_def = self.host.ops.get(op)
        kernels = self.host.kernels.registrations(op_def, self._device.backends)
        return "rng" in effects_of(op_def) or any(
            "rng" in entry.definition.effects for entry in kernels
        )

    def fresh(self) -> FunctionLibraryRuntime:
        """Return a runtime of the same functions, in which all their kernels begin again.

        It ends with this one; who asks for it may close it sooner.
        """
        family: dict[str, FunctionLibraryRuntime] = {}
        closing = CancellationManager(self.closing)

        def on(device: Device) -> FunctionLibraryRuntime:
            found = family.get(device.name)
            if found is None:
                runtime = FunctionLibraryRuntime(
                    self._full_graph, device, self._options, maker, on, family
                )
                runtime.closing = closing
                found = family.setdefault(device.name, runtime)
            return found

        maker = self._maker.with_functions(on)
        return on(self._device)

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
        partitions, frame = self._prepare(handle, args, ctx)

        def finished(error: OpError | None) -> None:
            if error is None:
                error = _missing_result(handle.body, frame)
            if error is None:
                done(frame.retvals)
            else:
                done(error=error)

        call = ctx.args.for_call(frame)
        if call.call_depth % _CALLS_ON_STACK:
            self._start(partitions, call, finished)
        else:
            call.runner.post(lambda: self._start(partitions, call, finished))

    def run(
        self, handle: FunctionHandle, args: Sequence[Value], ctx: OpKernelContext
    ) -> list[Value]:
        """Run a function in the step of `ctx`, wait, and return its results.

        The calling kernel holds up the whole step meanwhile: for functions that wait for nothing
        that another node of the step does.

        Raises:
            OpError: see `run_async`, or a node of the function failed.
        """
        partitions, frame = self._prepare(handle, args, ctx)
        call = ctx.args.for_call(frame)
        call.runner = StepRunner(ctx.args.runner.pool)
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
                f"function '{body.name}' takes {len(body.arg_types)} arguments, {len(args)} given"
            )
        if ctx.args.call_depth >= MAX_CALL_DEPTH:
            raise ResourceExhaustedError(
                f"functions call each other more than {MAX_CALL_DEPTH} deep; the last is "
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
        """Start a call; on several devices its partitions have a rendezvous of their own."""
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
        """Drop all instantiated functions; stop who calls them between steps."""
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
                handle.partitions = self._maker.for_function(
                    graph, self._device, handle.segment, is_lowered=handle.is_lowered
                )
            return handle.partitions


def _missing_result(body: FunctionBody, frame: CallFrame) -> OpError | None:
    for index, value in enumerate(frame.retvals):
        if value is CallFrame.UNSET:
            return InvalidArgumentError(
                f"function '{body.name}': result {index} was not computed; it is in a branch that "
                "was not taken"
            )
    return None
