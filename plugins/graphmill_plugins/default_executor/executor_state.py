"""`ExecutorState`: one run of a graph; it calls the kernels that the propagator makes ready.

Semantics: `tensorflow/core/common_runtime/executor.cc` (clauses E5, E6, E8). Nodes are processed in
the thread that drives the step; a kernel that blocks or is expensive runs in another thread and
posts its outcome.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import CancelledError, InternalError, OpError
from graphmill.spi import (
    DEAD,
    OpKernelContext,
    at_node,
    check_outputs,
    read_refs,
    step_cancelled,
)
from graphmill.spi.executors import (
    done_twice,
    failure_at,
    sync_device,
    thread_id,
)
from graphmill.spi.kernels import NOT_NOW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ExecutorArgs
    from graphmill.spi.executors import DoneCallback
    from graphmill_plugins.default_executor.executor import DefaultExecutor
    from graphmill_plugins.default_executor.graph_view import NodeItem
    from graphmill_plugins.default_executor.propagator import Propagator, Ready, SimplePropagator
    from graphmill_plugins.default_executor.run_recorder import RunRecorder

WAITING: Final = object()
"""The return value of a call whose outcome was already propagated or will be posted."""
WORTH_A_THREAD_NS: Final = 100_000
"""Minimum estimated cost of a kernel that runs in the pool; the hand-over costs a third of it."""
_HISTORY: Final = 4  # a new measurement contributes a quarter to a node's cost estimate


class ExecutorState:
    """One run of a graph.

    Threads: everything happens in the thread that drives `args.runner`, except for kernels in the
    pool and the `done` callbacks of asynchronous kernels, which only post.
    """

    __slots__ = (
        "_called",
        "_done",
        "_error",
        "_executor",
        "_outcome",
        "_outstanding",
        "_propagator",
        "_ready",
        "_recorder",
        "args",
    )

    def __init__(self, executor: DefaultExecutor, args: ExecutorArgs, done: DoneCallback) -> None:
        self.args = args
        self._executor = executor
        self._done = done
        self._propagator: SimplePropagator | Propagator = executor.propagator_type(executor.view)
        self._ready: Ready = executor.new_queue()
        self._recorder: RunRecorder | None = None
        if args.stats_collector is not None:
            self._recorder = _recorder(self._ready, args, self.device_name)
        self._outstanding = 0
        self._error: OpError | None = None
        self._called: object = None  # the token of the asynchronous call that is being made
        self._outcome: tuple[Any, BaseException | None] | None = None

    @property
    def device_name(self) -> str:
        """Name of the device of the partition."""
        return self._executor.params.device.name

    def describe_pending(self) -> str:
        """Describe what each pending node waits for."""
        return self._propagator.describe_pending()

    def iteration_names(self) -> dict[str, str]:
        """Return the names that messages use for frames and iterations, by rendezvous key."""
        return self._propagator.iteration_names()

    def start(self) -> None:
        """Run the graph until it is done or blocked."""
        self._error = self._start_args() or self._run_ready()
        self._finish_if_done()

    def _start_args(self) -> OpError | None:
        propagator, ready = self._propagator, self._ready
        frame = self.args.call_frame
        iteration = propagator.start(ready)
        for item in self._executor.view.args:
            try:
                propagator.output_done(item, iteration, frame.get_arg(item.index), ready)
            except OpError as error:
                return self._error_at(item, iteration, error)
        return None

    def _run_ready(self) -> OpError | None:
        """Process nodes until none is ready or one fails. This is the hot loop."""
        ready = self._ready
        propagator = self._propagator
        output_done, node_done = propagator.output_done, propagator.node_done
        cancellation = self.args.parent_cancellation or _NEVER
        runner = self.args.runner
        recorder = self._recorder
        item: NodeItem | None = None
        iteration: Any = None
        node_inputs: list[Any] | None = None
        try:
            while ready:
                if cancellation.is_cancelled:
                    return self._cancelled_after(item, iteration)
                item, iteration, is_dead = ready.pop()
                inputs = iteration.inputs
                entries = item.inputs
                node_inputs = inputs[entries]
                inputs[entries] = item.cleared
                if is_dead:
                    if not item.is_transfer:
                        node_done(item, iteration, True, item.dead_outputs, ready)
                        continue
                    node_inputs = [DEAD] * item.num_inputs
                if item.is_plain:
                    if recorder is None:
                        result = item.compute(*node_inputs)  # type: ignore[misc]
                    else:
                        result = recorder.call(item, iteration, node_inputs)
                else:
                    result = self._call(item, iteration, node_inputs)
                    if result is WAITING:
                        if runner.has_posted:
                            # Process what the pool has finished first: it may make more nodes
                            # ready, which keeps the pool's threads busy.
                            runner.post(self._resume)
                            self._outstanding += 1
                            return None
                        continue
                # The arguments of the last node must not live on while the next one runs.
                node_inputs = None
                if item.num_outputs == 1:
                    dtype = item.output_dtype
                    if dtype is not None and getattr(result, "dtype", None) is not dtype:
                        check_outputs(item.kernel, item.output_dtypes, (result,))  # type: ignore[arg-type]
                        if result is DEAD:
                            node_done(item, iteration, False, (DEAD,), ready)
                            continue
                    output_done(item, iteration, result, ready)
                else:
                    if not item.num_outputs:
                        result = ()
                    elif not item.forwards:
                        check_outputs(item.kernel, item.output_dtypes, result)  # type: ignore[arg-type]
                    node_done(item, iteration, False, result, ready)
                result = None
        except Exception as error:  # noqa: BLE001 - the border to plugins' code: all becomes typed
            return self._error_at(item, iteration, error, node_inputs)  # type: ignore[arg-type]
        return None

    def _call(self, item: NodeItem, iteration: Any, inputs: list[Any]) -> Any:
        """Call the kernel of a node that is not plain, or that is traced."""
        if item.ref_inputs:
            read_refs(item.node, item.ref_inputs, inputs)
        if item.is_retval:
            self.args.call_frame.retvals[item.index] = inputs[0]
            return ()
        if item.takes_context:
            kernel = item.kernel
            inputs = [OpKernelContext(self.args, kernel, iteration), *inputs]  # type: ignore[arg-type]
        if item.is_async:
            try_now = item.try_now
            if try_now is not None and self._recorder is None:
                result = try_now(*inputs)
                if result is not NOT_NOW:
                    return result
            return self._call_async(item, iteration, inputs)
        if item.is_expensive:
            return self._call_expensive(item, iteration, inputs)
        return self._call_traced(item, iteration, inputs)

    def _call_traced(
        self, item: NodeItem, iteration: Any, inputs: list[Any], scheduled: int = -1
    ) -> Any:
        if self._recorder is None:
            return item.compute(*inputs)  # type: ignore[misc]
        return self._recorder.call(item, iteration, inputs, scheduled)

    def _call_expensive(self, item: NodeItem, iteration: Any, inputs: list[Any]) -> Any:
        """Call an expensive kernel; use the pool if other nodes are ready."""
        pool = self.args.runner.pool if self._executor.uses_pool else None
        if pool is None or item.cost_ns < WORTH_A_THREAD_NS or not self._ready:
            started = perf_counter_ns()
            result = self._call_traced(item, iteration, inputs)
            item.cost_ns += (perf_counter_ns() - started - item.cost_ns) // _HISTORY
            return result
        self._note_waiting(item)
        runner = self.args.runner
        runner.num_computing += 1
        scheduled = -1 if self._recorder is None else self._recorder.take_ready_time()

        from graphmill.spi.executors import running  # few steps need the pool

        def task() -> None:
            started = perf_counter_ns()
            result, error = None, None
            try:
                with running(self.args):
                    result = self._call_traced(item, iteration, inputs, scheduled)
            except BaseException as raised:  # noqa: BLE001 - becomes typed in the driving thread
                error = raised
            item.cost_ns += (perf_counter_ns() - started - item.cost_ns) // _HISTORY
            inputs.clear()
            runner.post(lambda: self._computed(item, iteration, result, error))

        pool.schedule(task)
        return WAITING

    def _computed(
        self, item: NodeItem, iteration: Any, outputs: Any, error: BaseException | None
    ) -> None:
        """Accept the outcome of a kernel that ran in the pool, and continue."""
        self.args.runner.num_computing -= 1
        self._posted(item, iteration, outputs, error)

    def _call_async(self, item: NodeItem, iteration: Any, inputs: list[Any]) -> Any:
        """Call an asynchronous kernel; return its outputs if it finishes at once."""
        runner = self.args.runner
        token = object()
        is_done = False
        recorder = self._recorder
        call = None if recorder is None else recorder.begin(item, iteration)

        def done(outputs: Any = None, error: BaseException | None = None) -> None:
            nonlocal is_done
            if is_done:
                raise done_twice(item.node.name)
            is_done = True
            is_at_once = self._called is token and runner.owner == thread_id()
            if call is not None and error is None and outputs is not DEAD:
                call.end(outputs, was_in_flight=not is_at_once)
            if is_at_once:
                self._outcome = (outputs, error)
            else:
                runner.post(lambda: self._posted(item, iteration, outputs, error))

        outer, self._called = self._called, token
        try:
            item.compute(*inputs, done=done)  # type: ignore[misc]
        finally:
            self._called = outer
        if self._outcome is None:
            self._note_waiting(item)
            return WAITING
        if recorder is not None:
            recorder.note_outcome()
        (outputs, error), self._outcome = self._outcome, None
        if error is not None:
            raise error
        if outputs is DEAD:
            self._propagator.node_done(item, iteration, False, (DEAD,), self._ready)
            return WAITING
        return outputs

    def _note_waiting(self, item: NodeItem) -> None:
        """Record a kernel in flight, whose outcome will be posted."""
        self._outstanding += 1
        args = self.args
        args.num_awaited += 1
        if item.is_transfer:
            args.receiving[self] = args.receiving.get(self, 0) + 1

    def _posted(
        self, item: NodeItem, iteration: Any, outputs: Any, error: BaseException | None
    ) -> None:
        """Accept the outcome of a kernel that ran elsewhere, and continue."""
        args = self.args
        args.num_awaited -= 1
        if item.is_transfer:
            args.receiving[self] -= 1
        if self._recorder is not None:
            self._recorder.note_outcome()
        if error is None and self._error is None:
            results = (outputs,) if item.num_outputs == 1 else outputs
            try:
                check_outputs(item.kernel, item.output_dtypes, results)  # type: ignore[arg-type]
                results = results if item.num_outputs else ()
                self._propagator.node_done(item, iteration, False, results, self._ready)
            except InternalError as fault:
                error = fault
        if error is not None:
            self._fail(self._error_at(item, iteration, error))
        self._resume()

    def _resume(self) -> None:
        """Continue after the outcome of a kernel in flight has arrived."""
        self._outstanding -= 1
        if self._error is None:
            args = self.args
            failure = (
                step_cancelled(args.cancel_reason()) if args.is_cancelled else self._run_ready()
            )
            if failure is not None:
                self._fail(failure)
        self._finish_if_done()

    def _fail(self, error: OpError) -> None:
        """Store the first error; later ones are marked as derived.

        A node of a called function may fail, cancel the step and be reported last, because the
        function's other nodes end first.
        """
        first = self._error
        was_cancelled = isinstance(first, CancelledError) and first.is_derived
        if first is None or (was_cancelled and not error.is_derived):
            self._error = error
        elif error is not first:
            error.is_derived = True

    def _finish_if_done(self) -> None:
        error = self._error
        if error is not None and self._outstanding:
            # Waiting kernels are cancelled; the run ends when the last of them has ended.
            self.args.start_cancel(error)
        if self._outstanding:
            return
        if error is None:
            if self._executor.view.has_control_flow and not self._propagator.is_done:
                error = self._deadlock_error()
            elif self.args.sync_on_finish:
                error = self._sync()
        self._ready.clear()
        self._done(error)

    def _sync(self) -> OpError | None:
        """Wait for the device; return the error of work that was still running on it."""
        try:
            sync_device(self._executor.params.device)
        except OpError as error:
            return error
        return None

    def _deadlock_error(self) -> OpError:
        """Return the error of a deadlocked run: no node is ready, but some are pending."""
        return InternalError(
            "the step is stuck: no node is ready, and these nodes wait for inputs that will never "
            f"arrive:\n{self.describe_pending()}",
            device=self.device_name,
        )

    def _cancelled_after(self, item: NodeItem | None, iteration: Any) -> OpError:
        """Return the error of a cancelled step; its node is the one that was running."""
        error = step_cancelled(self.args.cancel_reason())
        if item is None:
            return error
        return at_node(error, item.node, item.kernel, self.device_name, iteration.name)

    def _error_at(
        self,
        item: NodeItem,
        iteration: Any,
        error: BaseException,
        inputs: Sequence[Any] | None = None,
    ) -> OpError:
        """Return an exception as a status error with its node, or the error that caused it."""
        return error_at(self.args, self.device_name, item, iteration.name, error, inputs)


def error_at(
    args: ExecutorArgs,
    device: str,
    item: NodeItem,
    iteration: str,
    error: BaseException,
    inputs: Sequence[Any] | None = None,
) -> OpError:
    """Return an exception at a node as a status error, or the error that caused it.

    Args:
        args: the run's arguments.
        device: name of the partition's device.
        item: the node.
        iteration: frame and iteration as text.
        error: what was raised.
        inputs: the node's inputs, if they are known.
    """
    return failure_at(
        error,
        item.node,
        item.kernel,
        device=device,
        reason=args.cancel_reason(),
        iteration=iteration,
        inputs=inputs,
    )


class _NeverCancelled:
    is_cancelled = False


_NEVER: Final = _NeverCancelled()


def _recorder(ready: Ready, args: ExecutorArgs, device: str) -> RunRecorder:
    """Return the recorder that calls the kernels of a traced run."""
    from graphmill_plugins.default_executor.run_recorder import RunRecorder  # few runs are traced

    return RunRecorder(ready, args, device)
