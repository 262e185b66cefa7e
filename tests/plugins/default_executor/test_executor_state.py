"""`ExecutorState` (clauses E2, E5, E6, E8, E13), with kernels that tests control."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from graphmill import dtypes, errors
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.runtime.dead import DEAD
from graphmill.runtime.devices.device import Device, DeviceAttributes
from graphmill.runtime.executor import ExecutorArgs, LocalExecutorParams
from graphmill.runtime.kernels.kernel import KernelDef
from graphmill.runtime.kernels.op_kernel import NOT_NOW, OpKernel
from graphmill.runtime.resources.variables import Ref
from graphmill.runtime.steps.call_frame import CallFrame
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill.runtime.steps.step_runner import StepRunner
from graphmill.runtime.steps.step_stats import StepStatsCollector
from graphmill.runtime.threads.thread_pool import ThreadPool
from graphmill.testing.proto_builders import graph_def, node_def
from graphmill_plugins.default_executor.executor import (
    DefaultExecutorFactory,
    InlineExecutorFactory,
)

ONE = np.float32(1)
ARG = node_def("arg", "_Arg", T="float32", index=0)


class Plain(Device):
    """A device with host memory that records calls of `sync`."""

    is_host_memory = True
    failure: Exception | None = None
    synced = 0

    def namespace(self, backend: str) -> Any:
        return np

    def to_device(self, value: Any) -> Any:
        return value

    def to_host(self, value: Any) -> Any:
        return value

    def sync(self) -> None:
        self.synced += 1
        if self.failure is not None:
            raise self.failure


class Bench:
    """Runs a graph whose kernels are functions by node name, or (kind, function)."""

    def __init__(self, *nodes: Any, inline: bool = False, **kernels: Any) -> None:
        self.device = Plain(DeviceAttributes("/device:CPU:0", "CPU"))
        self.kernels = kernels
        self.given_back: list[str] = []
        params = LocalExecutorParams(
            self.device, self._kernel, lambda kernel: self.given_back.append(kernel.node_name)
        )
        factory = (InlineExecutorFactory if inline else DefaultExecutorFactory)()
        graph = graph_from_graph_def(graph_def(*nodes), OpRegistry())
        self.executor: Any = factory.new_executor(params, graph)
        self.log: list[str] = []

    def _kernel(self, node: Any) -> OpKernel:
        function = self.kernels.get(node.name, lambda *inputs: inputs[0] if inputs else ONE)
        kind = "plain"
        if isinstance(function, tuple):
            kind, function = function

        def compute(*inputs: Any, **keywords: Any) -> Any:
            self.log.append(node.name)
            return function(*inputs, **keywords)

        definition = KernelDef(
            (node.op,),
            function,
            async_=kind == "async",
            stateful=kind != "plain",
            expensive=kind == "pooled",
        )
        if kind == "pooled":
            definition = KernelDef((node.op,), function, expensive=True)
        return OpKernel(compute, definition, node.name, node.op, self.device)

    def args(self, *values: Any, retvals: int = 1, **fields: Any) -> ExecutorArgs:
        return ExecutorArgs(7, CallFrame(values, retvals), **fields)

    def run(self, *values: Any, retvals: int = 1, **fields: Any) -> list[Any]:
        args = self.args(*values, retvals=retvals, **fields)
        self.executor.run(args)
        return args.call_frame.retvals


def ret(src: str, index: int = 0) -> Any:
    return node_def(f"ret{index}", "_Retval", src, T="float32", index=index)


def neg(name: str, src: str, *after: str) -> Any:
    return node_def(name, "Neg", src, *after, T="float32")


# --------------------------------------------------------------------------------- arguments, end


def test_e2_arguments_and_results_pass_through_call_frame() -> None:
    bench = Bench(ARG, neg("n", "arg"), ret("n"), n=lambda x: -x)
    assert bench.run(np.float32(3)) == [-3]
    assert bench.run(np.float32(4)) == [-4]


def test_e2_missing_argument_names_its_node() -> None:
    bench = Bench(ARG, ret("arg"))
    with pytest.raises(errors.InternalError, match="argument 0 is missing") as caught:
        bench.run()
    assert (caught.value.node, caught.value.op_type) == ("arg", "_Arg")


def test_e8_done_is_called_once_after_the_last_node() -> None:
    bench = Bench(ARG, neg("n", "arg"), ret("n"))
    ended: list[Any] = []
    bench.executor.run_async(bench.args(ONE), ended.append)
    assert ended == [None]


def test_e8_device_is_synced_if_requested() -> None:
    bench = Bench(ARG, ret("arg"))
    bench.run(ONE)
    assert bench.device.synced == 0
    bench.run(ONE, sync_on_finish=True)
    assert bench.device.synced == 1


@pytest.mark.parametrize(
    ("failure", "cls"),
    [(RuntimeError("melted"), errors.InternalError), (errors.AbortedError("melted"), None)],
)
def test_e8_device_failure_at_sync_fails_the_step(failure: Any, cls: Any) -> None:
    bench = Bench(ARG, ret("arg"))
    bench.device.failure = failure
    with pytest.raises(cls or type(failure), match="melted") as caught:
        bench.run(ONE, sync_on_finish=True)
    assert caught.value.device == "/device:CPU:0"


def test_e8_a_device_is_not_waited_for_after_an_error() -> None:
    bench = Bench(ARG, neg("n", "arg"), n=lambda x: 1 / 0)
    with pytest.raises(errors.InvalidArgumentError):
        bench.run(ONE, sync_on_finish=True)
    assert bench.device.synced == 0


def test_e11_kernels_are_released() -> None:
    bench = Bench(ARG, neg("n", "arg"), ret("n"))
    bench.executor.close()
    assert bench.given_back == ["n"]


def test_e2_executor_without_owned_kernels_releases_none() -> None:
    device = Plain(DeviceAttributes("/device:CPU:0", "CPU"))
    params = LocalExecutorParams(device, lambda node: pytest.fail("no kernel is needed"))
    graph = graph_from_graph_def(graph_def(ARG, ret("arg")), OpRegistry())
    DefaultExecutorFactory().new_executor(params, graph).close()


# ------------------------------------------------------------------------------------ wrong outputs


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (np.float64(1), "returned a tensor of float64 for output 0, expected float32"),
        (None, "returned NoneType for output 0"),
        ([ONE], "returned list for output 0"),
    ],
)
def test_e6_output_dtype_must_match_the_graph(result: Any, words: str) -> None:
    bench = Bench(ARG, neg("n", "arg"), n=lambda x: result)
    with pytest.raises(errors.InternalError, match=words) as caught:
        bench.run(ONE)
    assert caught.value.node == "n"


SPLIT = node_def("s", "Unpack", "arg", T="float32", num=2, axis=0)


@pytest.mark.parametrize("result", [(ONE,), (ONE,) * 3, ONE, None])
def test_e6_output_count_must_match_the_graph(result: Any) -> None:
    bench = Bench(ARG, SPLIT, s=lambda x: result)
    with pytest.raises(errors.InternalError, match="expected 2"):
        bench.run(ONE)


def test_e6_several_outputs_go_to_their_readers() -> None:
    bench = Bench(ARG, SPLIT, ret("s:1", 0), ret("s", 1), s=lambda x: [x, x + ONE])
    assert bench.run(ONE, retvals=2) == [2, 1]


# ------------------------------------------------------------------------------------ cancellation


@pytest.mark.parametrize("inline", [False, True])
def test_e13_a_cancelled_step_runs_no_further_node(inline: bool) -> None:
    manager = CancellationManager()
    reason = errors.AbortedError("enough")
    bench = Bench(
        ARG,
        neg("a", "arg"),
        neg("b", "a"),
        inline=inline,
        a=lambda x: manager.start_cancel(reason) or x,
    )
    with pytest.raises(errors.CancelledError, match=r"the step was cancelled: enough") as caught:
        bench.run(ONE, cancellation_manager=manager)
    assert bench.log == ["a"]
    assert caught.value is not reason


def test_e13_a_step_that_is_cancelled_without_a_reason() -> None:
    manager = CancellationManager()
    manager.start_cancel()
    with pytest.raises(errors.CancelledError, match=r"^the step was cancelled$"):
        Bench(ARG, neg("a", "arg")).run(ONE, cancellation_manager=manager)


def test_e13_a_deadline_is_the_error_of_the_step() -> None:
    manager = CancellationManager()
    deadline = errors.DeadlineExceededError("too late")
    manager.start_cancel(deadline)
    with pytest.raises(errors.DeadlineExceededError) as caught:
        Bench(ARG, neg("a", "arg")).run(ONE, cancellation_manager=manager)
    assert caught.value is deadline


@pytest.mark.parametrize(
    "reason", [errors.DeadlineExceededError("late"), errors.AbortedError("enough")]
)
def test_e13_kernel_that_notices_cancellation_first_reports_the_reason(
    reason: errors.OpError,
) -> None:
    manager = CancellationManager()

    def kernel(x: Any) -> Any:
        manager.start_cancel(reason)
        raise errors.CancelledError("noticed")

    with pytest.raises(errors.OpError) as caught:
        Bench(ARG, neg("a", "arg"), a=kernel).run(ONE, cancellation_manager=manager)
    if isinstance(reason, errors.DeadlineExceededError):
        assert caught.value is reason
    else:
        assert caught.value.message == "noticed: enough"
        assert caught.value.is_derived


def test_e13_cancelled_error_of_a_kernel_is_kept() -> None:
    def kernel(x: Any) -> Any:
        raise errors.CancelledError("the queue was closed")

    with pytest.raises(errors.CancelledError, match=r"^the queue was closed") as caught:
        Bench(ARG, neg("a", "arg"), a=kernel).run(ONE, cancellation_manager=CancellationManager())
    assert not caught.value.is_derived


# ---------------------------------------------------------------------------- asynchronous kernels


class Waiting:
    """An asynchronous kernel that the test, or a cancellation, completes."""

    def __init__(self) -> None:
        self.done: Any = None
        self.started = threading.Event()

    def __call__(self, ctx: Any, x: Any, *, done: Any) -> None:
        self.done = done
        ctx.cancellation.register(lambda: done(error=errors.CancelledError("woken")))
        self.started.set()


def test_e6_async_kernel_may_finish_immediately() -> None:
    nodes = (ARG, neg("a", "arg"), neg("b", "a"), ret("b"))
    bench = Bench(*nodes, a=("async", lambda ctx, x, done: done(x + ONE)))
    assert bench.run(ONE) == [2]


def test_e6_a_kernel_that_is_done_later_by_any_thread() -> None:
    waiting = Waiting()
    bench = Bench(ARG, neg("a", "arg"), neg("b", "a"), ret("b"), a=("async", waiting))
    thread = threading.Thread(target=lambda: waiting.started.wait(60) and waiting.done(ONE * 5))
    thread.start()
    assert bench.run(ONE) == [5]
    thread.join()


@pytest.mark.parametrize("has_to_wait", [False, True])
def test_e6_async_kernel_is_called_only_if_it_has_to_wait(
    has_to_wait: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def try_now(ctx: Any, x: Any) -> Any:
        tried.append(x)
        return NOT_NOW if has_to_wait else x + ONE

    made = Bench._kernel

    def with_try_now(bench: Bench, node: Any) -> OpKernel:
        kernel = made(bench, node)
        kernel.set_try_now(try_now)
        return kernel

    monkeypatch.setattr(Bench, "_kernel", with_try_now)
    nodes = ARG, neg("a", "arg"), ret("a")
    bench = Bench(*nodes, a=("async", lambda ctx, x, done: done(x + ONE)))
    assert bench.run(ONE) == [2]
    assert tried == [ONE]
    assert bench.log == ["a"] * has_to_wait


def test_e6_a_kernel_without_outputs_may_be_asynchronous() -> None:
    waiting = Waiting()
    nodes = (ARG, node_def("a", "NoOp"), neg("b", "arg", "^a"), ret("b"))
    bench = Bench(*nodes, a=("async", lambda ctx, done: waiting(ctx, None, done=done)))
    ended: list[Any] = []
    args = bench.args(ONE)
    bench.executor.run_async(args, ended.append)
    assert ended == []
    waiting.done()
    args.runner.run_posted()
    assert ended == [None]
    assert args.call_frame.retvals == [1]


def test_e6_done_may_be_called_once_only() -> None:
    def twice(ctx: Any, x: Any, *, done: Any) -> None:
        done(x)
        done(x)

    with pytest.raises(errors.InternalError, match="'a' called done twice") as caught:
        Bench(ARG, neg("a", "arg"), a=("async", twice)).run(ONE)
    assert caught.value.node == "a"


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("outcome", "cls", "words"),
    [
        ({"error": errors.OutOfRangeError("end")}, errors.OutOfRangeError, "end"),
        ({"error": ValueError("bad")}, errors.InvalidArgumentError, "bad"),
        ({"outputs": np.float64(1)}, errors.InternalError, "float64 for output 0"),
        ({}, errors.InternalError, "NoneType for output 0"),
    ],
)
def test_e6_async_kernel_outcome_is_validated(
    at_once: bool, outcome: Any, cls: Any, words: str
) -> None:
    calls: list[Any] = []

    def kernel(ctx: Any, x: Any, *, done: Any) -> None:
        if at_once:
            done(**outcome)
        else:
            calls.append(done)

    bench = Bench(ARG, neg("a", "arg"), a=("async", kernel))
    ended: list[Any] = []
    args = bench.args(ONE)
    bench.executor.run_async(args, ended.append)
    if calls:
        calls[0](**outcome)
        args.runner.run_posted()
    (error,) = ended
    assert type(error) is cls
    assert words in error.message
    assert error.node == "a"


def test_e6_raising_async_kernel_does_not_block_the_step() -> None:
    def kernel(ctx: Any, x: Any, *, done: Any) -> None:
        raise KeyError("before done")

    with pytest.raises(errors.InternalError, match="KeyError") as caught:
        Bench(ARG, neg("a", "arg"), a=("async", kernel)).run(ONE)
    assert caught.value.node == "a"


@pytest.mark.parametrize("later", [False, True])
def test_e7_async_kernel_may_return_dead_output(later: bool) -> None:
    """An asynchronous kernel, such as a receive, may return a dead output."""
    calls: list[Any] = []

    def kernel(ctx: Any, x: Any, *, done: Any) -> None:
        calls.append(done) if later else done(DEAD)

    nodes = (
        ARG,
        neg("a", "arg"),
        neg("b", "a"),
        node_def("m", "Merge", "b", "arg", T="float32", N=2),
        ret("m"),
    )
    bench = Bench(*nodes, a=("async", kernel), m=lambda x, y: (y if x is None else x, np.int32(1)))
    ended: list[Any] = []
    args = bench.args(ONE)
    bench.executor.run_async(args, ended.append)
    if later:
        calls[0](DEAD)
        args.runner.run_posted()
    assert ended == [None]
    assert "b" not in bench.log
    assert args.call_frame.retvals == [1]


def test_e8_first_error_cancels_waiters_and_is_raised() -> None:
    waiting = Waiting()
    nodes = (ARG, neg("bad", "arg"), neg("wait", "arg"))
    bench = Bench(*nodes, wait=("async", waiting), bad=lambda x: 1 / 0)
    with pytest.raises(errors.InvalidArgumentError, match="zero") as caught:
        bench.run(ONE)
    assert caught.value.node == "bad"
    assert not caught.value.is_derived


def test_e8_run_ends_after_all_started_kernels() -> None:
    calls: dict[str, Any] = {}

    def stubborn(name: str) -> Any:
        return "async", lambda ctx, x, done: calls.update({name: done})

    nodes = (ARG, neg("a", "arg"), neg("b", "arg"), neg("after", "a"))
    bench = Bench(*nodes, a=stubborn("a"), b=stubborn("b"))
    ended: list[Any] = []
    args = bench.args(ONE)
    bench.executor.run_async(args, ended.append)
    first = errors.AbortedError("first")
    calls["b"](error=first)
    args.runner.run_posted()
    assert ended == []
    second = errors.UnavailableError("second")
    calls["a"](error=second)
    args.runner.run_posted()
    assert ended == [first]
    assert second.is_derived
    assert "after" not in bench.log


def test_e8_success_after_an_error_starts_no_consumers() -> None:
    calls: dict[str, Any] = {}

    def stubborn(name: str) -> Any:
        return "async", lambda ctx, x, done: calls.update({name: done})

    nodes = (ARG, neg("a", "arg"), neg("b", "arg"), neg("after", "a"))
    bench = Bench(*nodes, a=stubborn("a"), b=stubborn("b"))
    ended: list[Any] = []
    args = bench.args(ONE)
    bench.executor.run_async(args, ended.append)
    calls["b"](error=errors.AbortedError("first"))
    calls["a"](ONE)
    args.runner.run_posted()
    assert [type(error) for error in ended] == [errors.AbortedError]
    assert "after" not in bench.log


def test_e13_cancellation_while_all_wait_ends_the_step() -> None:
    manager = CancellationManager()
    waiting = Waiting()
    bench = Bench(ARG, neg("a", "arg"), a=("async", waiting))
    ended: list[Any] = []
    args = bench.args(ONE, cancellation_manager=manager)
    bench.executor.run_async(args, ended.append)
    manager.start_cancel(errors.CancelledError("Session has been closed."))
    args.runner.run_posted()
    (error,) = ended
    assert type(error) is errors.CancelledError
    assert error.message == "woken: Session has been closed."


def test_e13_cancelled_step_starts_no_further_nodes() -> None:
    manager = CancellationManager()
    calls: list[Any] = []
    nodes = (ARG, neg("a", "arg"), neg("after", "a"))
    bench = Bench(*nodes, a=("async", lambda ctx, x, done: calls.append(done)))
    ended: list[Any] = []
    args = bench.args(ONE, cancellation_manager=manager)
    bench.executor.run_async(args, ended.append)
    manager.start_cancel(errors.AbortedError("enough"))
    calls[0](ONE)
    args.runner.run_posted()
    assert [error.message for error in ended] == ["the step was cancelled: enough"]
    assert bench.log == ["a"]


# -------------------------------------------------------------------------------- expensive kernels


@pytest.fixture
def pool() -> Any:
    pool = ThreadPool(2)
    yield pool
    pool.close()


def pooled(bench: Bench) -> None:
    """Make the executor treat its expensive kernels as slow."""
    for item in bench.executor.view.items:
        item.cost_ns = 10**9


NODES = (ARG, neg("a", "arg"), neg("b", "arg"), ret("a"), ret("b", 1))


def test_e5_slow_kernel_runs_in_pool_if_other_nodes_are_ready(pool: Any) -> None:
    threads: dict[str, int] = {}

    def kernel(name: str) -> Any:
        return "pooled", lambda x: (threads.update({name: threading.get_ident()}), x)[1]

    bench = Bench(*NODES, a=kernel("a"), b=kernel("b"))
    assert bench.run(ONE, retvals=2, runner=StepRunner(pool)) == [1, 1]
    assert set(threads.values()) == {threading.get_ident()}
    pooled(bench)
    assert bench.run(ONE, retvals=2, runner=StepRunner(pool)) == [1, 1]
    here = [name for name, thread in threads.items() if thread == threading.get_ident()]
    assert len(here) == 1  # the last one stays: there is nothing to do meanwhile


@pytest.mark.parametrize(
    ("raised", "cls"),
    [
        (ValueError("bad"), errors.InvalidArgumentError),
        (SystemExit(3), errors.InternalError),
        (errors.OutOfRangeError("end"), errors.OutOfRangeError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_e6_exception_in_pool_kernel_fails_the_step(pool: Any, raised: Any, cls: Any) -> None:
    here = threading.get_ident()

    def fail(x: Any) -> Any:
        if threading.get_ident() == here:
            return x
        raise raised

    bench = Bench(*NODES, a=("pooled", fail), b=("pooled", fail))
    pooled(bench)
    with pytest.raises(cls) as caught:
        bench.run(ONE, retvals=2, runner=StepRunner(pool))
    assert caught.value.node in ("a", "b")


def test_e5_inline_leaves_the_pool_alone(pool: Any) -> None:
    bench = Bench(
        *NODES,
        inline=True,
        a=("pooled", lambda x: np.float32(threading.get_ident() == here)),
        b=("pooled", lambda x: np.float32(threading.get_ident() == here)),
    )
    here = threading.get_ident()
    pooled(bench)
    assert bench.run(ONE, retvals=2, runner=StepRunner(pool)) == [1, 1]
    assert pool.num_started == 0


def test_e12_kernels_in_the_pool_and_waiting_ones_are_recorded(pool: Any) -> None:
    collector = StepStatsCollector()
    nodes = (*NODES, neg("w", "arg"))
    bench = Bench(
        *nodes,
        a=("pooled", lambda x: x),
        b=("pooled", lambda x: x),
        w=("async", lambda ctx, x, done: done(x)),
    )
    pooled(bench)
    bench.run(ONE, retvals=2, runner=StepRunner(pool), stats_collector=collector)
    assert sorted(stats.node_name for stats in collector.nodes()) == ["a", "b", "w"]


class InstantPool:
    """A pool that runs tasks before `schedule` returns."""

    def schedule(self, task: Any) -> None:
        task()


def test_e5_finished_pool_kernels_are_propagated_first() -> None:
    """Finished pool kernels are propagated first, so that no pool thread waits."""
    nodes = (ARG, neg("a", "arg"), neg("b", "arg"), neg("after_a", "a"), neg("after_b", "b"))
    bench = Bench(*nodes, a=("pooled", lambda x: x), b=("pooled", lambda x: x))
    pooled(bench)
    bench.run(ONE, runner=StepRunner(InstantPool()))  # type: ignore[arg-type]
    assert bench.log == ["b", "after_b", "a", "after_a"]


# ------------------------------------------------------------------------------ contexts, transfers


def test_e6_stateful_kernel_gets_step_and_node() -> None:
    seen: list[Any] = []

    def kernel(ctx: Any, x: Any) -> Any:
        seen.append((ctx.step_id, ctx.node_name, ctx.op, ctx.device))
        return x

    bench = Bench(ARG, neg("n", "arg"), n=("stateful", kernel))
    bench.run(ONE)
    assert seen == [(7, "n", "Neg", bench.device)]


def test_e6_reference_is_dereferenced_for_value_inputs() -> None:
    ref = Ref(dtypes.float32, (), "v")
    nodes = (
        node_def("v", "VariableV2", dtype="float32", shape=None),
        neg("n", "v"),
        ret("n"),
        ret("v", 1),
    )
    bench = Bench(*nodes, v=lambda: ref, n=lambda x: -x)
    with pytest.raises(errors.FailedPreconditionError, match="uninitialized value v"):
        bench.run(retvals=2)
    ref.value = np.float32(3)
    assert bench.run(retvals=2) == [-3, 3]


def test_e12_plain_and_stateful_kernels_are_recorded() -> None:
    collector = StepStatsCollector()
    bench = Bench(ARG, neg("p", "arg"), neg("s", "p"), s=("stateful", lambda ctx, x: x))
    bench.run(ONE, stats_collector=collector)
    assert [stats.node_name for stats in collector.nodes("/device:CPU:0")] == ["p", "s"]


def test_r1_pending_receives_are_counted() -> None:
    """Pending receives are counted, to detect partitions that wait for each other."""
    pending: list[Any] = []
    ends = {"tensor_name": b"t", "send_device": b"/a", "recv_device": b"/b"}
    recv = node_def("recv", "_Recv", tensor_type="float32", send_device_incarnation=1, **ends)
    bench = Bench(
        recv, neg("n", "recv"), ret("n"), recv=("async", lambda _, done: pending.append(done))
    )
    args = bench.args()
    ended: list[Any] = []
    bench.executor.run_async(args, ended.append)
    assert (args.num_awaited, list(args.receiving.values())) == (1, [1])
    (run,) = args.receiving
    assert run.device_name == "/device:CPU:0"
    assert "n (Neg) waits for recv" in run.describe_pending()
    pending[0](ONE)
    args.runner.run_until(lambda: bool(ended))
    assert (args.num_awaited, list(args.receiving.values())) == (0, [0])
    assert (ended, args.call_frame.retvals) == ([None], [ONE])


def test_e7_send_receives_dead_values() -> None:
    """A send passes dead values on, for which the receiver would otherwise wait."""
    sent: list[Any] = []
    ends = {
        "tensor_name": b"t",
        "send_device": b"/a",
        "recv_device": b"/b",
        "send_device_incarnation": 1,
        "client_terminated": False,
    }
    nodes = (
        ARG,
        node_def("flag", "_Arg", T="bool", index=1),
        node_def("switch", "Switch", "arg", "flag", T="float32"),
        node_def("send", "_Send", "switch:1", T="float32", **ends),
    )
    bench = Bench(*nodes, switch=lambda x, flag: (x, DEAD), send=lambda x: sent.append(x))
    bench.run(ONE, np.bool_(False))
    assert sent == [DEAD]


def test_e13_cancellation_reason_is_not_added_twice() -> None:
    manager = CancellationManager()

    def kernel(x: Any) -> Any:
        manager.start_cancel(errors.AbortedError("enough"))
        raise errors.CancelledError("noticed: enough")

    with pytest.raises(errors.CancelledError) as caught:
        Bench(ARG, neg("a", "arg"), a=kernel).run(ONE, cancellation_manager=manager)
    assert caught.value.message == "noticed: enough"


# ------------------------------------------------------------------------------------------- stuck


def test_stalled_run_is_internal_error_with_explanation() -> None:
    """A stalled run, which no known event causes, is reported instead of blocking."""
    enter = node_def("enter", "Enter", "arg", T="float32", frame_name=b"loop")
    nodes = (ARG, enter, node_def("m", "Merge", "enter", "enter", T="float32", N=2))
    bench = Bench(*nodes, m=lambda x, y: (x, np.int32(0)))
    item = next(item for item in bench.executor.view.items if item.child_frame is not None)
    item.child_frame.input_count += 1  # as if another Enter never came
    with pytest.raises(errors.InternalError, match="the step is stuck") as caught:
        bench.run(ONE)
    assert "loop:0:" in caught.value.message
    assert caught.value.device == "/device:CPU:0"
