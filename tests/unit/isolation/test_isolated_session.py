"""Sessions of isolated models: steps, errors, limits, crashes, hangs, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, proto
from graphmill.isolation import IsolatedSession, IsolationLimits, child_process

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., IsolatedSession]

pytestmark = pytest.mark.divided

WAIT = "import time; time.sleep(1000)"
BUSY = "while True: pass"


def run(session: IsolatedSession, code: str, **options: Any) -> Any:
    return session.run("run:0", {"code:0": code}, **options)


def test_step_returns_the_results_of_a_session(isolated: Make) -> None:
    session = isolated()
    x = np.arange(5000, dtype=np.float32)
    fetched = session.run({"y": "y:0", "both": ["y", "x:0"]}, {"x:0": x})
    np.testing.assert_array_equal(fetched["y"], x * x)
    assert fetched["both"][0] is None
    np.testing.assert_array_equal(fetched["both"][1], x)
    assert session.run("y:0", {"x:0": 3.0}) == 9.0
    assert run(session, "result = 'text'") == b"text"


def test_callable_takes_values_by_position(isolated: Make) -> None:
    square = isolated().make_callable("y:0", ["x:0"])
    np.testing.assert_array_equal(square(np.float32([1, 2])), [1, 4])
    with pytest.raises(errors.InvalidArgumentError, match="expected 1 values, got 0"):
        square()


def test_traced_step_fills_its_metadata(isolated: Make) -> None:
    metadata = proto.RunMetadata()
    isolated().run("y:0", {"x:0": 2.0}, {"trace_level": "FULL_TRACE"}, metadata)
    names = {
        stats.node_name for device in metadata.step_stats.dev_stats for stats in device.node_stats
    }
    assert "y" in names


def test_error_names_its_node_and_the_session_stays_usable(isolated: Make) -> None:
    session = isolated()
    with pytest.raises(errors.OpError, match="division by zero") as caught:
        run(session, "1 / 0")
    assert caught.value.node == "run"
    assert caught.value.op_type == "Hostile>Run"
    with pytest.raises(errors.NotFoundError):
        session.run("z:0")
    with pytest.raises(errors.InvalidArgumentError, match="x"):
        session.run("y:0", {"x:0": "text"})
    assert session.run("y:0", {"x:0": 2.0}) == 4.0


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os.abort()", "ended during a step: signal SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", "ended during a step: signal SIGSEGV"),
        ("import os; os.kill(os.getpid(), 9)", "ended during a step: signal SIGKILL"),
        ("import os; os._exit(3)", "ended during a step: exit status 3"),
    ],
)
def test_crash_is_a_typed_error(isolated: Make, code: str, message: str) -> None:
    session = isolated()
    with pytest.raises(errors.UnavailableError, match=message) as caught:
        run(session, code)
    assert "load the model again; its variables are lost" in caught.value.message
    with pytest.raises(errors.UnavailableError, match=r"has ended: .*load the model again"):
        session.run("y:0", {"x:0": 2.0})


def test_use_of_memory_is_limited(isolated: Make) -> None:
    session = isolated(limits=IsolationLimits(memory_bytes=600 << 20))
    with pytest.raises(errors.ResourceExhaustedError):
        run(session, "result = len(bytearray(700 << 20))")
    assert run(session, "result = len(bytearray(20 << 20))") == b"20971520"
    shared = "import mmap; mmap.mmap(-1, 1 << 20)"
    with pytest.raises(errors.OpError, match="Operation not permitted"):
        run(session, shared)


def test_use_of_processor_time_is_limited(isolated: Make) -> None:
    session = isolated(limits=IsolationLimits(cpu_seconds=1))
    with pytest.raises(errors.ResourceExhaustedError, match=r"SIGXCPU.*1 s .*cpu_seconds"):
        run(session, BUSY)


def test_open_files_are_limited(isolated: Make) -> None:
    session = isolated(limits=IsolationLimits(open_files=64))
    with pytest.raises(errors.OpError, match="Too many open files"):
        run(session, "files = [open('/dev/null') for _ in range(64)]")


def test_limits_cannot_be_raised_again(isolated: Make) -> None:
    code = "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (128, 256))"
    with pytest.raises(errors.OpError, match=r"not permitted|not allowed"):
        run(isolated(), code)


def test_results_larger_than_the_limit_are_refused(isolated: Make) -> None:
    session = isolated(limits=IsolationLimits(transfer_bytes=1 << 20))
    with pytest.raises(errors.ResourceExhaustedError, match="transfer_bytes"):
        session.run("y:0", {"x:0": np.ones(1 << 19, np.float32)})
    x = np.ones((1 << 17, 1), np.float32)
    with pytest.raises(errors.ResourceExhaustedError, match="transfer_bytes"):
        session.run(["y:0", "x:0", "y:0"], {"x:0": x.T * np.ones((3, 1), np.float32)})
    assert session.run("y:0", {"x:0": 2.0}) == 4.0


def test_step_that_hangs_is_ended(isolated: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "CANCEL_GRACE_SECONDS", 0.1)
    session = isolated()
    with pytest.raises(errors.DeadlineExceededError, match="its process was ended"):
        run(session, WAIT, options={"timeout_in_ms": 100})
    with pytest.raises(errors.UnavailableError, match="did not end within"):
        session.run("y:0", {"x:0": 2.0})


def test_step_without_a_timeout_has_the_limit_of_steps(isolated: Make) -> None:
    session = isolated(limits=IsolationLimits(step_seconds=20))
    session._process._limits = IsolationLimits(step_seconds=0.2)  # the start takes longer
    with pytest.raises(errors.DeadlineExceededError, match=r"within 0.2 s.*step_seconds"):
        run(session, WAIT)


def test_close_ends_a_step_of_another_thread(isolated: Make) -> None:
    session = isolated()
    caught: list[BaseException] = []

    def step() -> None:
        try:
            run(session, "import sys; sys.stderr.flush(); " + WAIT)
        except errors.OpError as error:
            caught.append(error)

    thread = threading.Thread(target=step)
    thread.start()
    while not session._process.lock.locked():
        assert thread.is_alive()
    session.close()
    thread.join()
    assert type(caught[0]) is errors.CancelledError
    with pytest.raises(errors.CancelledError, match="has been closed"):
        session.run("y:0", {"x:0": 2.0})
    session.close()


def test_interrupt_cancels_the_step_and_keeps_the_process(
    isolated: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = isolated()
    read = child_process.packets.read_packet
    interrupts = [KeyboardInterrupt()]

    def interrupted(*arguments: Any) -> Any:
        if interrupts:
            raise interrupts.pop()  # as Ctrl-C does while the reply is awaited
        return read(*arguments)

    monkeypatch.setattr(child_process.packets, "read_packet", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(session, "import time\nfor _ in range(100_000): time.sleep(0.01)")
    assert session.run("y:0", {"x:0": 2.0}) == 4.0


def test_ctrl_c_ends_the_step_of_a_program(model: Path, isolation: None) -> None:
    code = "import os, time\nos.write(1, b'begun\\n')\nwhile True: time.sleep(0.01)"
    program = (
        "import signal\n"
        "from graphmill.isolation import IsolatedSession\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # it may be ignored here
        f"session = IsolatedSession({str(model)!r})\n"
        "try:\n"
        f"    session.run('run:0', {{'code:0': {code!r}}})\n"
        "except KeyboardInterrupt:\n"
        "    print(session.run('y:0', {'x:0': 3.0}))\n"
    )
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env=variables, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "begun\n"
        parent.send_signal(signal.SIGINT)
        assert parent.stdout.read() == "9.0\n"
    assert parent.returncode == 0


def test_interrupt_between_steps_is_ignored_by_the_process(isolated: Make) -> None:
    session = isolated()
    os.kill(session.pid, signal.SIGINT)
    assert session.run("y:0", {"x:0": 2.0}) == 4.0


def test_malformed_reply_ends_the_process(isolated: Make) -> None:
    session = isolated()
    code = """
import contextlib, os
for fd in range(3, 1024):
    with contextlib.suppress(OSError):
        os.write(fd, b"x" * 1000)
"""
    with pytest.raises(errors.DataLossError, match="sent a malformed reply, and was ended"):
        run(session, code)
    with pytest.raises(errors.UnavailableError, match="malformed reply"):
        session.run("y:0", {"x:0": 2.0})


def test_process_ends_with_its_parent(model: Path, isolation: None) -> None:
    program = (
        "import os, sys; from graphmill.isolation import IsolatedSession\n"
        f"session = IsolatedSession({str(model)!r}); print(session.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, env=variables
    )
    child = int(parent.stdout)
    descriptor = None
    try:
        descriptor = os.pidfd_open(child)
    except ProcessLookupError:
        return  # it has ended already
    import select

    with os.fdopen(descriptor, "rb", closefd=True):
        assert select.select([descriptor], [], [], 30)[0] == [descriptor]


def test_forked_process_cannot_use_the_session(isolated: Make) -> None:
    session = isolated()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # JAX warns if another test imported it
        pid = os.fork()
    if pid == 0:
        try:
            session.run("y:0", {"x:0": 2.0})
        except errors.FailedPreconditionError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert session.run("y:0", {"x:0": 2.0}) == 4.0


def test_steps_of_threads_run_one_after_the_other(isolated: Make) -> None:
    session = isolated()
    results: list[Any] = [None] * 8

    def step(number: int) -> None:
        results[number] = session.run("y:0", {"x:0": np.full(3000, number, np.float32)})

    threads = [threading.Thread(target=step, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result[0] for result in results] == [number**2 for number in range(8)]


def test_secrets_of_the_environment_are_not_inherited(
    isolated: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "12345")
    names = run(isolated(), "import os; result = sorted(os.environ)")
    assert b"SECRET_KEY" not in names
    assert b"PATH'" not in names.replace(b"LD_LIBRARY_PATH'", b"")


def test_process_that_cannot_start_is_a_typed_error(model: Path, isolation: None) -> None:
    with pytest.raises(errors.UnavailableError, match="memory_bytes"):
        IsolatedSession(model, limits=IsolationLimits(memory_bytes=1 << 20))


def test_missing_model_and_wrong_options_are_refused(
    model: Path, isolation: None, tmp_path: Path
) -> None:
    with pytest.raises(errors.NotFoundError, match=r"none\.pb does not exist"):
        IsolatedSession(tmp_path / "none.pb")
    with pytest.raises(errors.InvalidArgumentError, match="not a local path"):
        IsolatedSession("s3://bucket/model.pb")
    with pytest.raises(errors.InvalidArgumentError, match="cannot be combined with isolation"):
        IsolatedSession(model, allow=["net"])
    with pytest.raises(errors.NotFoundError, match="create it before"):
        IsolatedSession(model, allow=[f"fs.write:{tmp_path / 'new'}"])
    with pytest.raises(errors.InvalidArgumentError, match="jit_cache_dir"):
        IsolatedSession(model, config={"graphmill": {"jit_cache_dir": "/tmp/x"}})
    with pytest.raises(errors.InvalidArgumentError, match="has no tags"):
        IsolatedSession(model, ["serve"])


def test_graph_that_is_damaged_is_refused(model: Path, isolation: None) -> None:
    model.write_bytes(b"\xff" * 100)
    with pytest.raises(errors.OpError):
        IsolatedSession(model)


def test_saved_model_is_isolated_on_request(isolation: None) -> None:
    path = Path(__file__).parents[3] / "examples" / "digits" / "saved_model_tf2"
    image = np.ones((2, 8, 8, 1), np.float32)
    with graphmill.saved_model.load(path) as model:
        expected = model.signatures["serving_default"](image=image)
    with graphmill.saved_model.load(path, isolate=True) as isolated_model:
        assert isolated_model.tags == {"serve"}
        outcome = isolated_model.signatures["serving_default"](image=image)
        with pytest.raises(errors.InvalidArgumentError, match="wrong inputs"):
            isolated_model.signatures["serving_default"](x=image)
    assert outcome.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(outcome[name], expected[name])


def test_limits_and_hosts_fit_isolation_only() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="add isolate=True"):
        graphmill.saved_model.load("model", limits=IsolationLimits())  # type: ignore[call-overload]
    with pytest.raises(errors.InvalidArgumentError, match="GRAPHMILL_LOAD_PLUGINS"):
        graphmill.saved_model.load(  # type: ignore[call-overload]
            "model", isolate=True, host=graphmill.default_host()
        )
