"""Sessions work in a forked child and continue in the parent."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no os.fork")

PROGRAM = '''
import faulthandler, os
WATCHDOG = 60
# Before graphmill registers what it does in a child: that is watched, too. The parent has no such
# watchdog, because the child of a process that has one waits for its thread.
os.register_at_fork(
    after_in_child=lambda: faulthandler.dump_traceback_later(WATCHDOG, exit=True)
)
import multiprocessing, sys, threading
import numpy as np
import graphmill
from graphmill import errors
from graphmill_plugins.default_executor import executor_state

executor_state.WORTH_A_THREAD_NS = -1  # the pool gets all expensive kernels, however fast they are
VALUE = np.full((96, 96), 0.01, np.float32)


def make(jit, device="", after_steps=1):
    """Return a session of two chains of products that may run at once, and a step of it."""
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(device):
        x = graph.placeholder("float32", [96, 96], name="x")
        a = b = x
        for _ in range(4):
            a = graphmill.ops.math.tanh(graphmill.ops.math.mat_mul(a, x))
            b = graphmill.ops.math.tanh(graphmill.ops.math.mat_mul(b, x)) * 0.5
        y = a + b
    config = graphmill.ConfigProto()
    config.graphmill.jit = jit
    config.graphmill.jit_after_steps = after_steps
    config.inter_op_parallelism_threads = 3
    if device:
        config.device_count["XLA_CPU"] = 1
    session = graphmill.Session(graph=graph, config=config)
    return session, lambda: session.run(y, {x: VALUE}), lambda: session.explain(y, [x])


def warm(session, step, jit):
    """Run steps until the pool has threads, or everything is compiled."""
    for _ in range(40):
        result = step()
        session._impl.host.background.wait_idle()
    if jit == "off":
        assert session._impl.pool.num_started
    else:
        assert "jax" in sys.modules
    return result


def in_child(action, ends=os._exit):
    """Fork, call `action` in the child, and return the child's exit code."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status = 1
    try:
        action()
        status = 0
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        ends(status)


def tiers(record):
    """Return the tiers of all signatures of a session's clusters, and why they are no higher."""
    return {
        (signature.tier, signature.reason)
        for compilation in record.compilations.values()
        for cluster in compilation.clusters
        for signature in cluster.signatures
    }
'''


_TIMEOUT = 180.0  # seconds; more than the watchdog of children and what the parent takes


def run(program: str, tmp_path: Path, *, warnings: str = "ignore", off: str = "") -> str:
    """Run a program in a new interpreter; return its output."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM + program)
    with (tmp_path / "output").open("w+") as output:  # a pipe would wait for each child, too
        process = subprocess.Popen(
            [sys.executable, "-W", warnings, str(file)],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "GRAPHMILL_PROCESS_EFFECTS": off},
        )
        try:
            code = process.wait(_TIMEOUT)
        finally:
            with suppress(ProcessLookupError):  # all have ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        text = output.read()
    assert code == 0, text[-4000:]
    return text


jax = pytest.mark.jax
MODES = ["off", pytest.param("tiered", marks=jax), pytest.param("eager", marks=jax)]


@pytest.mark.parametrize("jit", MODES)
def test_session_from_before_the_fork_runs_steps_in_the_child(jit: str, tmp_path: Path) -> None:
    run(
        f"""
session, step, explain = make({jit!r})
expected = warm(session, step, {jit!r})

def child():
    for _ in range(40):
        assert np.allclose(step(), expected, atol=1e-6)
    if {jit!r} == "off":
        assert session._impl.pool.num_started, "the pool was not used"
    else:
        assert {{tier for tier, _ in tiers(explain())}} == {{"straight-line"}}
        assert all("before this process was forked" in why for _, why in tiers(explain()))
    session.close()

assert in_child(child) == 0
assert in_child(child) == 0, "a second child"
assert np.array_equal(step(), expected), "the parent goes on"
session.close()
""",
        tmp_path,
    )


@pytest.mark.parametrize("jit", MODES)
def test_session_made_in_the_child_runs_steps(jit: str, tmp_path: Path) -> None:
    run(
        f"""
session, step, _ = make({jit!r})
expected = warm(session, step, {jit!r})

def child():
    own, step, explain = make({jit!r})
    for _ in range(40):
        assert np.allclose(step(), expected, atol=1e-6)
        own._impl.host.background.wait_idle()
    if {jit!r} != "off":
        assert {{tier for tier, _ in tiers(explain())}} == {{"straight-line"}}
    own.close()

assert in_child(child) == 0
assert np.array_equal(step(), expected)
""",
        tmp_path,
    )


@jax
@pytest.mark.parametrize("jit", ["tiered", "eager"])
def test_child_compiles_if_the_parent_has_not_started_jax(jit: str, tmp_path: Path) -> None:
    run(
        f"""
session, step, explain = make({jit!r}, after_steps=3)
if {jit!r} == "tiered":
    expected = [step() for _ in range(2)][0]
else:
    expected = make("off")[1]()
assert "jax" not in sys.modules

def child():
    for _ in range(40):
        assert np.allclose(step(), expected, atol=1e-6)
        session._impl.host.background.wait_idle()
    assert any(signature.compiles for compilation in explain().compilations.values()
               for cluster in compilation.clusters for signature in cluster.signatures)

assert in_child(child) == 0
assert np.allclose(step(), expected, atol=1e-6)
""",
        tmp_path,
    )


def jax_version() -> tuple[int, ...]:
    """Return the first two parts of JAX's version; none if it is not installed."""
    try:
        version = importlib.metadata.version("jax")
    except importlib.metadata.PackageNotFoundError:
        return ()
    return tuple(int(part) for part in version.split(".")[:2])


@jax
@pytest.mark.skipif(jax_version() < (0, 10), reason="older JAX waits when such a process ends")
def test_child_that_ends_normally_does_not_wait_for_jax(tmp_path: Path) -> None:
    run(
        """
session, step, _ = make("eager")
step()
assert in_child(step, ends=sys.exit) == 0
""",
        tmp_path,
    )


@jax
def test_jax_device_refuses_to_compute_in_the_child(tmp_path: Path) -> None:
    run(
        """
session, step, _ = make("off", "/device:XLA_CPU:0")
expected = step()

def refuses(action):
    try:
        action()
    except errors.FailedPreconditionError as error:
        assert "forked" in error.message and "'spawn' or 'forkserver'" in error.message
    else:
        raise AssertionError("it computed")

def child():
    refuses(step)
    refuses(lambda: make("off", "/device:XLA_CPU:0"))
    session.close()
    make("off")[1]()

assert in_child(child) == 0
assert np.array_equal(step(), expected)
""",
        tmp_path,
    )


@pytest.mark.parametrize("jit", MODES)
def test_sessions_work_after_a_fork_in_another_thread(jit: str, tmp_path: Path) -> None:
    run(
        f"""
session, step, _ = make({jit!r})
expected = warm(session, step, {jit!r})
codes = []

def child():
    assert np.allclose(step(), expected, atol=1e-6)

thread = threading.Thread(target=lambda: codes.append(in_child(child)), daemon=True)
thread.start()
thread.join()
assert codes == [0]
assert np.array_equal(step(), expected)
""",
        tmp_path,
    )


def test_fork_while_a_background_job_is_in_progress(tmp_path: Path) -> None:
    run(
        """
session, step, _ = make("off")
expected = warm(session, step, "off")
has_begun, may_end, done = threading.Event(), threading.Event(), []
background = session._impl.host.background
background.submit(session._impl, lambda: (has_begun.set(), may_end.wait()))
background.submit(session._impl, lambda: done.append("queued"))
has_begun.wait()
interval = sys.getswitchinterval()

def child():
    assert background.wait_idle(0), "the job is the parent's"
    assert sys.getswitchinterval() > interval, "the thread that lowered it is not here"
    assert np.array_equal(step(), expected)
    assert background.submit(session._impl, lambda: done.append("own"))
    assert background.wait_idle(WATCHDOG / 2)
    assert done == ["own"]
    session.close()

assert in_child(child) == 0
may_end.set()
assert background.wait_idle(WATCHDOG)
assert done == ["queued"]
""",
        tmp_path,
    )


@jax
def test_fork_while_a_program_is_compiled(tmp_path: Path) -> None:
    run(
        """
from graphmill_plugins.jit.programs import compiler
compile_cluster, has_begun, may_end = compiler.compile_cluster, threading.Event(), threading.Event()

def slow(*args, **keywords):
    has_begun.set()
    may_end.wait()
    return compile_cluster(*args, **keywords)

compiler.compile_cluster = slow
session, step, explain = make("tiered")
while not has_begun.is_set():
    expected = step()
    has_begun.wait(0.001)

def child():
    for _ in range(40):
        assert np.allclose(step(), expected, atol=1e-6)
        assert session._impl.host.background.wait_idle(WATCHDOG / 2)
    assert {tier for tier, _ in tiers(explain())} == {"straight-line"}
    session.close()

assert in_child(child) == 0
may_end.set()
for _ in range(40):
    assert np.allclose(step(), expected, atol=1e-6)
    session._impl.host.background.wait_idle()
assert any(signature.compiles for compilation in explain().compilations.values()
           for cluster in compilation.clusters for signature in cluster.signatures)
""",
        tmp_path,
    )


@jax
def test_fork_waits_for_the_graph_that_is_being_rebuilt(tmp_path: Path) -> None:
    """A fork waits until the background thread has rebuilt a graph, which may import modules."""
    run(
        """
from graphmill.session.direct_session import DirectSession
build, has_begun, may_end = DirectSession.hot_partitions, threading.Event(), threading.Event()

def slow(*arguments):
    has_begun.set()
    may_end.wait()
    try:
        return build(*arguments)
    finally:
        built.append(True)

DirectSession.hot_partitions, built = slow, []
session, step, _ = make("tiered")
while not has_begun.is_set():
    expected = step()
    has_begun.wait(0.001)
os.register_at_fork(before=may_end.set)  # the latest one is called first

def child():
    assert built, "the fork did not wait"
    assert np.allclose(step(), expected, atol=1e-6)

assert in_child(child) == 0
""",
        tmp_path,
    )


VARIABLE = """
from graphmill.runtime.resources.variables import Variable
from graphmill.runtime.resources.exclusive_update import writable
import gc
graph = graphmill.Graph()
with graph.as_default():
    v = graphmill.ops.state.var_handle_op(dtype="float32", shape=[4])
    init = graphmill.ops.state.assign_variable_op(v, np.zeros(4, np.float32))
    one = graphmill.ops.state.assign_add_variable_op(v, np.ones(4, np.float32))
    rows = graphmill.ops.state.resource_scatter_add(v, [0, 2], np.ones(2, np.float32))
    value = graphmill.ops.state.read_variable_op(v, dtype="float32")
session = graphmill.Session(graph=graph)
session.run(init)
(variable,) = [found for found in gc.get_objects() if type(found) is Variable
               and found.value is not None and found.value.shape == (4,)]
"""


def test_locks_that_another_thread_holds_are_free_in_the_child(tmp_path: Path) -> None:
    run(
        VARIABLE
        + """
held, may_end = threading.Event(), threading.Event()

def hold():
    with variable.lock, session._impl._graph_lock, session._impl.cancellation._lock:
        held.set()
        may_end.wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()

def child():
    session.run([one, rows])
    assert session.run(value).sum() == 6
    with graph.as_default():
        twice = value * 2.0
    assert session.run(twice).sum() == 12

assert in_child(child) == 0
may_end.set()
session.run(one)
assert session.run(value).sum() == 4
""",
        tmp_path,
    )


def test_fork_waits_for_an_update_in_place(tmp_path: Path) -> None:
    run(
        VARIABLE
        + """
begun, may_end = threading.Event(), threading.Event()

def update():
    with variable.lock, writable(variable) as array:
        array[:2] += 1
        begun.set()
        may_end.wait()
        array[2:] += 1

threading.Thread(target=update, daemon=True).start()
begun.wait()
os.register_at_fork(before=may_end.set)  # the latest one is called first

def child():
    assert session.run(value).tolist() == [1, 1, 1, 1], "the update was torn"
    session.run(rows)
    assert type(variable) is Variable

assert in_child(child) == 0
session.run(rows)
assert session.run(value).tolist() == [2, 1, 2, 1]
""",
        tmp_path,
    )


def test_waiting_steps_of_the_parent_do_not_resume_in_the_child(tmp_path: Path) -> None:
    run(
        """
graph = graphmill.Graph()
with graph.as_default():
    queue = graphmill.ops.data_flow.fifo_queue_v2(component_types=["float32"], shapes=[[]])
    put = graphmill.ops.data_flow.queue_enqueue_v2(queue, [np.float32(1)])
    (got,) = graphmill.ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"])
    size = graphmill.ops.data_flow.queue_size_v2(queue)
session = graphmill.Session(graph=graph)
session.run(size)
import gc
from graphmill_plugins.kernels.data_flow._queue import Queue
(found,) = [one for one in gc.get_objects() if isinstance(one, Queue)]
results = []
thread = threading.Thread(target=lambda: results.append(session.run(got)), daemon=True)
thread.start()
while not found._dequeues:
    threading.Event().wait(0.001)

def child():
    session.run(put)
    assert session.run(size) == 1, "a step of the parent took it"
    assert session.run(got) == 1.0
    session.close()

assert in_child(child) == 0
session.run(put)
thread.join()
assert results == [1.0]
""",
        tmp_path,
    )


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_multiprocessing_workers_run_steps(method: str, tmp_path: Path) -> None:
    run(
        f"""
def work(_):
    return (step if {method!r} == "fork" else make("off")[1])()

if __name__ == "__main__":
    session, step, _ = make("off")
    expected = warm(session, step, "off")
    with multiprocessing.get_context({method!r}).Pool(2) as workers:
        results = workers.map_async(work, range(4)).get(WATCHDOG)
    assert all(np.array_equal(result, expected) for result in results)
    assert np.array_equal(step(), expected)
""",
        tmp_path,
    )


def test_helper_threads_restart_in_the_child(tmp_path: Path) -> None:
    run(
        """
from graphmill_plugins.kernels._helper_threads import Helpers
helpers, ran = Helpers(3), []
helpers.run([lambda: ran.append(1)] * 8)

def child():
    helpers.run([lambda: ran.append(1)] * 8)
    assert len(ran) == 16

assert in_child(child) == 0
assert len(ran) == 8
""",
        tmp_path,
    )


def test_half_assembled_default_host_is_rebuilt_after_fork(tmp_path: Path) -> None:
    run(
        """
from graphmill.plugin import host as hosts
from graphmill.runtime.process import fork
fork.watch_forks()
assemble, begun, may_end = hosts.Host._assemble, threading.Event(), threading.Event()

def slow(self):
    if threading.current_thread() is not threading.main_thread():
        begun.set()
        may_end.wait()
    assemble(self)

hosts.Host._assemble = slow
thread = threading.Thread(target=graphmill.default_host, daemon=True)
thread.start()
begun.wait()

def child():
    assert make("off")[1]().shape == (96, 96)

assert in_child(child) == 0
may_end.set()
thread.join()
""",
        tmp_path,
    )


@jax
def test_jax_warns_of_a_fork_as_without_graphmill(tmp_path: Path) -> None:
    output = run(
        """
import warnings
session, step, _ = make("eager")
step()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    in_child(lambda: None)
print([str(one.message) for one in caught if one.category is RuntimeWarning])
""",
        tmp_path,
    )
    assert "JAX is multithreaded" in output
