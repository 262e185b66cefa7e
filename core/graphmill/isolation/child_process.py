"""`ChildProcess`: start, reach and end the process of an isolated model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from graphmill.errors import (
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
)
from graphmill.isolation import packets
from graphmill.isolation.packets import EndOfStreamError, Packet
from graphmill.isolation.tensors import SharedArea, new_area
from graphmill.runtime.process.sandbox.resource_limits import limit_cpu_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.isolation.limits import IsolationLimits
    from graphmill.runtime.process.sandbox.file_access import FileAccess

CANCEL_GRACE_SECONDS: Final = 5.0
"""The seconds that the process may take to cancel a step before it is killed."""
END_GRACE_SECONDS: Final = 5.0
"""The seconds that the process may take to end before it is killed."""
_REPEAT_SECONDS: Final = 0.05
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from graphmill.isolation.child import main; main(*map(int, sys.argv[2:]))"
)
_VARIABLES: Final = frozenset(
    (
        *("LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "NPROC"),
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "XLA_FLAGS"),
    )
)
_NOT_INHERITED: Final = frozenset(("GRAPHMILL_JIT_CACHE_DIR",))


class ChildProcess:
    """The process of an isolated model: it answers one request at a time.

    Args:
        model: the model, for messages.
        limits: what it may use.
        access: which files it may open.

    Attributes:
        area: the shared memory for large tensors.
        lock: held during a request.

    Raises:
        OSError: the process cannot be started.
        UnavailableError: it ended before it was ready.
        UnimplementedError: a protection could not be applied.
    """

    def __init__(self, model: str, limits: IsolationLimits, access: FileAccess) -> None:
        self._model = model
        self._limits = limits
        self._ended = ""
        self._is_closed = False
        self._owner = os.getpid()
        self.lock = threading.Lock()
        area = new_area(limits.transfer_bytes)
        requests, self._requests = os.pipe()
        self._replies, replies = os.pipe()
        lifeline, self._lifeline = os.pipe()
        inherited = (requests, replies, lifeline, area)
        try:
            self.area = SharedArea(area, limits.transfer_bytes)
            os.set_blocking(self._requests, False)
            os.set_blocking(self._replies, False)
            self._process = _start(inherited)
        except BaseException:
            for fd in (self._requests, self._replies, self._lifeline):
                os.close(fd)
            raise
        finally:
            for fd in inherited:
                os.close(fd)
        try:
            self._set_up(access)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def request(self, packet: Packet, timeout: float | None, what: str) -> Packet:
        """Send a request, and return the reply; the caller holds `lock`.

        Args:
            packet: the request.
            timeout: the seconds after which the process cancels the request by itself; None for
                the limit for steps, after which it is ended at once.
            what: the request, for messages: "a step".

        Raises:
            CancelledError: the model was closed.
            DeadlineExceededError: the process did not answer in time, and was ended.
            DataLossError: it answered with something malformed, and was ended.
            ResourceExhaustedError: the system ended it because of a limit.
            UnavailableError: it crashed or was killed.
            KeyboardInterrupt: Ctrl-C was pressed; the request is cancelled.
        """
        self.check()
        limit = self._limits.step_seconds if timeout is None else timeout + CANCEL_GRACE_SECONDS
        deadline = time.monotonic() + limit
        try:
            limit_cpu_time(self.pid, self._limits.cpu_seconds)
            packets.write_packet(self._requests, packet, deadline)
            return packets.read_packet(self._replies, packets.MAX_REPLY_BYTES, deadline)
        except (EndOfStreamError, BrokenPipeError, ProcessLookupError):
            raise self._exit_error(what) from None
        except DeadlineExceededError:
            self.fail(f"{what} did not end within {limit:g} s")
            raise DeadlineExceededError(
                f"{what} of the isolated model {self._model} did not end within {limit:g} s, "
                "and its process was ended; load the model again (the limit is the step's timeout "
                f"and {CANCEL_GRACE_SECONDS:g} s, else IsolationLimits.step_seconds)"
            ) from None
        except DataLossError as error:
            raise self.malformed(error) from None
        except KeyboardInterrupt:
            self._interrupt()
            raise

    def check(self) -> None:
        """Raise if the process cannot take requests any more."""
        if os.getpid() != self._owner:
            raise FailedPreconditionError(
                f"the isolated model {self._model} was loaded before this process was forked; "
                "load it again in this process"
            )
        if self._is_closed:
            raise CancelledError(f"the isolated model {self._model} has been closed")
        if self._ended:
            raise UnavailableError(
                f"the process of the isolated model {self._model} has ended: {self._ended}; load "
                "the model again"
            )

    def malformed(self, error: Exception) -> OpError:
        """End the process because of a malformed reply, and return the error to raise."""
        self.fail(f"malformed reply ({error})")
        return DataLossError(
            f"the process of the isolated model {self._model} sent a malformed reply, and was "
            f"ended: {error}"
        )

    def fail(self, reason: str) -> None:
        """End the process at once."""
        self._ended = self._ended or reason
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the process, during a request at once; safe to call twice, and from any thread."""
        if self._is_closed or os.getpid() != self._owner:
            return
        self._is_closed = True
        if self.lock.acquire(blocking=False):
            try:
                os.close(self._requests)
                self._requests = -1
                self._wait_or_kill()
            finally:
                self.lock.release()
        else:
            self._process.kill()  # ends the request that is in progress
            self._process.wait()
        with self.lock:
            for fd in (self._requests, self._replies, self._lifeline):
                if fd >= 0:
                    os.close(fd)
            self.area.close()

    def _set_up(self, access: FileAccess) -> None:
        setup = {
            "limits": self._limits.as_data(),
            "access": {"read": access.read, "list": access.list, "write": access.write},
        }
        with self.lock:
            packet = Packet(packets.SETUP, json.dumps(setup).encode())
            reply = self.request(packet, None, "the start")
        if reply.kind != packets.READY:
            from graphmill.isolation.error_packets import decode_error

            raise decode_error(reply)

    def _wait_or_kill(self) -> None:
        try:
            self._process.wait(END_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _interrupt(self) -> None:
        """Cancel the request; end the process if it does not answer."""
        deadline = time.monotonic() + CANCEL_GRACE_SECONDS
        try:
            self._process.send_signal(signal.SIGINT)
            # It ignores a signal that comes before it has begun with the request.
            while (
                not packets.is_readable(self._replies, _REPEAT_SECONDS)
                and time.monotonic() < deadline
            ):
                self._process.send_signal(signal.SIGINT)
            packets.read_packet(self._replies, packets.MAX_REPLY_BYTES, deadline)
        except (EOFError, OpError):
            self.fail("interrupted by Ctrl-C, and it did not answer")

    def _exit_error(self, what: str) -> OpError:
        """Return the error for a process that has ended by itself during a request."""
        try:
            status = self._process.wait(END_GRACE_SECONDS)
        except subprocess.TimeoutExpired:  # it has closed its pipes, and lives on
            self.fail("it closed its connection")
            return UnavailableError(
                f"the process of the isolated model {self._model} closed its connection during "
                f"{what}, and was ended; load the model again"
            )
        if self._is_closed:
            return CancelledError(f"the isolated model {self._model} was closed during {what}")
        how = _describe(status)
        self._ended = how
        text = f"the process of the isolated model {self._model} ended during {what}: {how}"
        again = "load the model again; its variables are lost"
        if status == -signal.SIGXCPU:
            return ResourceExhaustedError(
                f"{text}; it used more than {self._limits.cpu_seconds:g} s of processor time "
                f"(IsolationLimits.cpu_seconds); {again}"
            )
        return UnavailableError(f"{text}. {_advice(status)}; {again}")


def _start(inherited: tuple[int, ...]) -> subprocess.Popen[bytes]:
    """Start the interpreter with these file descriptors and few variables of the environment.

    It has a session of its own, and so does not get signals of the terminal such as Ctrl-C, which
    its parent handles.
    """
    path = [entry for entry in sys.path if os.path.isabs(entry)]  # noqa: PTH117 - texts
    command = [sys.executable, "-I", "-B", "-c", _START, json.dumps(path), *map(str, inherited)]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        env=_environment(os.environ),
        pass_fds=inherited,
        cwd="/",
        start_new_session=True,
    )


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the process inherits: no secrets of the program."""
    inherited = {
        name: value
        for name, value in variables.items()
        if name in _VARIABLES or (name.startswith("GRAPHMILL_") and name not in _NOT_INHERITED)
    }
    return {**inherited, "JAX_PLATFORMS": "cpu", "HOME": "/nonexistent"}


def _describe(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def _advice(status: int) -> str:
    """Return advice on how to find the cause."""
    if status == -signal.SIGKILL:
        return "SIGKILL is sent by the system if memory runs out, or by a user"
    if status in (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS):
        return (
            "A library crashed, perhaps because memory ran out (IsolationLimits.memory_bytes), or "
            "the model exploits a bug in it"
        )
    return "Its messages are on stderr; if memory ran out, raise IsolationLimits.memory_bytes"
