"""`ExecutorState`: the shell of one run. It calls kernels; what runs next the propagator says.

Semantics: `tensorflow/core/common_runtime/executor.cc` (rows E5, E6, E8), in one thread.
"""

from __future__ import annotations

from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import (
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
)
from graphmill.runtime.dead import DEAD
from graphmill.runtime.op_kernel_context import OpKernelContext
from graphmill.runtime.step_stats import NodeStats, describe_outputs, now, thread_id
from graphmill_plugins.default_executor.propagator import Propagator, SimplePropagator

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.runtime.executor import ExecutorArgs
    from graphmill_plugins.default_executor.executor import DefaultExecutor
    from graphmill_plugins.default_executor.graph_view import NodeItem
    from graphmill_plugins.default_executor.propagator import Ready

    Completion = tuple[NodeItem, Any, Any, BaseException | None]
    """An asynchronous kernel's node, iteration, outputs and error."""

# What NumPy and kernels raise for bad values; any other class is a fault of the kernel itself.
_BAD_VALUE = (ValueError, IndexError, OverflowError, ZeroDivisionError)
_ASYNC = object()


class ExecutorState:
    """One run.

    Threads: everything happens in the thread that calls `run`, but for the `done` callbacks of
    asynchronous kernels, which only put their outcome into `_completions`.
    """

    __slots__ = (
        "_async_outstanding",
        "_completions",
        "_executor",
        "_propagator",
        "_ready",
        "args",
    )

    def __init__(self, executor: DefaultExecutor, args: ExecutorArgs) -> None:
        self.args = args
        self._executor = executor
        view = executor.view
        self._propagator: SimplePropagator | Propagator = (
            Propagator(view) if view.has_control_flow else SimplePropagator(view)
        )
        self._ready: Ready = []
        self._async_outstanding = 0
        self._completions: SimpleQueue[Completion] | None = None

    def run(self) -> OpError | None:
        """Run the graph; return the first error, or None."""
        with np.errstate(all="ignore"):  # as TensorFlow: overflow and NaN are values, not warnings
            error = self._start_args() or self._run_ready()
            while self._async_outstanding:
                # After an error too: a kernel that was started must end before the step does.
                error = self._finish_one() or error
                if error is None:
                    error = self._run_ready()
        if error is None:
            if self._executor.view.has_control_flow and not self._propagator.is_done:
                return self._stuck()
            if self.args.sync_on_finish:
                self._executor.params.device.sync()
        return error

    def _start_args(self) -> OpError | None:
        propagator, ready = self._propagator, self._ready
        frame = self.args.call_frame
        iteration = propagator.start(ready)
        for item in self._executor.view.args:
            try:
                propagator.output_done(item, iteration, frame.get_arg(item.index), ready)
            except OpError as error:
                return self._located(item, iteration, error)
        return None

    def _run_ready(self) -> OpError | None:
        """Process nodes until none is ready or one fails. This is the hot loop."""
        ready = self._ready
        propagator = self._propagator
        output_done, node_done = propagator.output_done, propagator.node_done
        cancellation = self.args.cancellation_manager or _NEVER
        is_traced = self.args.stats_collector is not None
        item: NodeItem | None = None
        iteration: Any = None
        try:
            while ready:
                if cancellation.is_cancelled:
                    return self._cancelled()
                item, iteration, is_dead = ready.pop()
                inputs = iteration.inputs
                start, stop = item.input_start, item.input_stop
                taken = inputs[start:stop]
                inputs[start:stop] = item.cleared
                if is_dead:
                    node_done(item, iteration, True, item.dead_outputs, ready)
                    continue
                if item.is_plain and not is_traced:
                    result = item.compute(*taken)  # type: ignore[misc]
                else:
                    result = self._call(item, iteration, taken)
                    if result is _ASYNC:
                        continue
                # The arguments of the last node must not live on while the next one runs.
                del taken
                if item.num_outputs == 1:
                    dtype = item.output_dtype
                    if dtype is not None and getattr(result, "dtype", None) is not dtype:
                        _check_output(item, 0, result, dtype)
                    output_done(item, iteration, result, ready)
                else:
                    _check_outputs(item, result)
                    node_done(item, iteration, False, result if item.num_outputs else (), ready)
                result = None
        except Exception as error:  # noqa: BLE001 - the border to plugins' code: all becomes typed
            return self._typed(item, iteration, error)
        return None

    def _call(self, item: NodeItem, iteration: Any, taken: list[Any]) -> Any:
        """Call a node's kernel where it takes more than the plain inputs."""
        if item.is_retval:
            value = taken[0]
            if item.ref_inputs:
                value = _dereference(item, taken)[0]
            self.args.call_frame.retvals[item.index] = value
            return ()
        if item.ref_inputs:
            taken = _dereference(item, taken)
        if item.takes_context:
            kernel = item.kernel
            taken = [OpKernelContext(self.args, kernel), *taken]  # type: ignore[arg-type]
        if item.is_async:
            return self._start_async(item, iteration, taken)
        if self.args.stats_collector is not None:
            return self._call_traced(item, taken)
        return item.compute(*taken)  # type: ignore[misc]

    def _call_traced(self, item: NodeItem, taken: list[Any]) -> Any:
        started = now()
        result = item.compute(*taken)  # type: ignore[misc]
        self._record(item, started, (result,) if item.num_outputs == 1 else result)
        return result

    def _record(self, item: NodeItem, started: int, outputs: Any) -> None:
        self.args.stats_collector.record(  # type: ignore[union-attr]
            self._executor.params.device.name,
            NodeStats(
                item.node.name,
                item.node.op,
                thread_id(),
                started,
                started,
                now(),
                describe_outputs(outputs or ()),
            ),
        )

    def _start_async(self, item: NodeItem, iteration: Any, taken: list[Any]) -> Any:
        if self._completions is None:
            self._completions = SimpleQueue()
        self._async_outstanding += 1
        done = _done_once(item, iteration, self._completions.put)
        item.compute(*taken, done=done)  # type: ignore[misc]
        return _ASYNC

    def _finish_one(self) -> OpError | None:
        """Wait for an asynchronous kernel and propagate its outputs."""
        item, iteration, outputs, error = self._completions.get()  # type: ignore[union-attr]
        self._async_outstanding -= 1
        if error is not None:
            return self._typed(item, iteration, error)
        try:
            if item.num_outputs == 1:
                outputs = (outputs,)
            _check_outputs(item, outputs)
        except OpError as fault:
            return self._located(item, iteration, fault)
        given = outputs if item.num_outputs else ()
        self._propagator.node_done(item, iteration, False, given, self._ready)
        return None

    def _stuck(self) -> OpError:
        """Return the error of a run in which nothing is ready and nodes still wait."""
        return InternalError(
            "the step is stuck: nothing is ready, and these nodes wait for inputs that will not "
            f"come:\n{self._propagator.story()}",
            device=self._executor.params.device.name,
        )

    def _cancelled(self) -> OpError:
        reason = self.args.cancellation_manager.reason  # type: ignore[union-attr]
        if isinstance(reason, DeadlineExceededError):
            return reason
        return CancelledError("the step was cancelled" + (f": {reason.message}" if reason else ""))

    def _typed(self, item: NodeItem | None, iteration: Any, error: BaseException) -> OpError:
        """Return `error` as a status error that names the node."""
        if isinstance(error, OpError):
            return self._located(item, iteration, error)
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if isinstance(error, MemoryError):
            typed: OpError = ResourceExhaustedError(f"out of memory: {text}")
        elif isinstance(error, RecursionError):
            typed = ResourceExhaustedError(f"functions call each other too deeply: {text}")
        elif isinstance(error, _BAD_VALUE):
            typed = InvalidArgumentError(str(error) or text)
        else:
            source = (
                item.kernel.definition.source if item is not None and item.kernel else "executor"
            )
            typed = InternalError(f"the kernel {source} failed: {text}")
        typed.__cause__ = error
        return self._located(item, iteration, typed)

    def _located(self, item: NodeItem | None, iteration: Any, error: OpError) -> OpError:
        if item is None:
            return error
        if iteration.name and error.node is None:
            error.message += f" (in iteration {iteration.name})"
        kernel = item.kernel
        owner = kernel.owner if kernel is not None else None
        builtin = owner is None or getattr(owner, "is_builtin", False)
        error.locate(
            node=item.node.name,
            op=item.node.op,
            device=self._executor.params.device.name,
            plugin=None if builtin else str(getattr(owner, "plugin", owner)),
            node_def=_node_def_maker(item),
        )
        return error


class _NeverCancelled:
    is_cancelled = False


_NEVER = _NeverCancelled()


def _node_def_maker(item: NodeItem) -> Callable[[], Any]:
    def make() -> Any:
        from graphmill.graph.import_export import node_to_node_def

        return node_to_node_def(item.node)

    return make


def _dereference(item: NodeItem, taken: list[Any]) -> list[Any]:
    """Return the inputs with the values of references (row E6)."""
    for position in item.ref_inputs:
        ref = taken[position]
        if ref.value is None and not item.uninitialized_ok:
            raise FailedPreconditionError(
                f"Attempting to use uninitialized value {ref.name}; "
                "run the variables' initializer or restore a checkpoint first"
            )
        taken[position] = ref.value
    return taken


def _done_once(
    item: NodeItem, iteration: Any, put: Callable[[Completion], None]
) -> Callable[..., None]:
    """Return the `done` of an asynchronous kernel; a second call is the kernel's fault."""
    called = False

    def done(outputs: Any = None, error: BaseException | None = None) -> None:
        nonlocal called
        if called:
            raise InternalError(f"the kernel of {item.node.name!r} called done twice")
        called = True
        put((item, iteration, outputs, error))

    return done


def _check_output(item: NodeItem, index: int, value: Any, expected: np.dtype[Any]) -> None:
    """Raise unless an output has the dtype that the graph says."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        raise InternalError(
            f"the kernel {_source(item)} returned {type(value).__name__} for output {index}, "
            f"expected a tensor of {as_dtype(expected).name}"
        )
    if dtype != expected:
        raise InternalError(
            f"the kernel {_source(item)} returned a tensor of {dtype} for output {index}, "
            f"expected {as_dtype(expected).name}"
        )


def _check_outputs(item: NodeItem, result: Any) -> None:
    """Raise unless several outputs have the number and dtypes that the graph says."""
    count = item.num_outputs
    if not count:
        return
    if not isinstance(result, (tuple, list)) or len(result) != count:
        given = len(result) if isinstance(result, (tuple, list)) else type(result).__name__
        raise InternalError(
            f"the kernel {_source(item)} returned {given} outputs, expected {count}"
        )
    for index, (value, dtype) in enumerate(zip(result, item.output_dtypes, strict=True)):
        if dtype is not None and getattr(value, "dtype", None) is not dtype and value is not DEAD:
            _check_output(item, index, value, dtype)


def _source(item: NodeItem) -> str:
    return item.kernel.definition.source if item.kernel is not None else item.node.op
