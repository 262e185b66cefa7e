"""Run op cases in a subprocess, which may crash, hang or run out of memory.

    with CaseProcess("session") as ours, CaseProcess("tensorflow", python=PYTHON) as theirs:
        result = ours.run(text)

The process runs `python -m graphmill.testing.runners.subprocess_runner`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from graphmill.deprecations import renamed_name, warn_renamed
from graphmill.testing.case import parse_cases
from graphmill.testing.case_inputs import SpecError
from graphmill.testing.golden import CaseResult
from graphmill.testing.oracle import gradient_results
from graphmill.testing.oracle.gradient_results import GradientRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.testing.case import Case

NO_CASE = "<no case>"
"""The error of an invalid case: an unknown op or attr, or a value that cannot be written."""
NOT_APPLICABLE = "<not applicable>"
CRASHED = "<crash>"
HANGS = "<hang>"
GRADIENTS = "gradients"
"""The backend that computes graphmill's gradients."""
TENSORFLOW_GRADIENTS = "tensorflow gradients"

_MEMORY = 12 << 30
_WAIT_MS = 1500


class CaseProcess:
    """A runner in a subprocess, which is restarted after a crash.

    Args:
        backend: "tensorflow", "numpy", "session", "jax" or "jit"; or GRADIENTS or
            TENSORFLOW_GRADIENTS, which return the results of `gradient_results`.
        python: the interpreter; for TensorFlow, one that has it installed.
        seconds: the time limit for a case, after which the process is killed.
    """

    def __init__(self, backend: str, *, python: str = sys.executable, seconds: float = 10) -> None:
        self._backend = backend
        self._python = python
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None
        self._folder = tempfile.TemporaryDirectory()

    def run(self, text: str) -> CaseResult:
        """Run the case in a text; a crash or a timeout is a result with an error."""
        connection = self._connection or self._start()
        try:
            connection.send(text)
            if connection.poll(self._seconds):
                result: CaseResult = connection.recv()
                return result
        except (EOFError, ConnectionError):
            self._end()
            return CaseResult(error=CRASHED)
        self._end()
        return CaseResult(error=HANGS)

    def ask(self, text: str) -> CaseResult:
        """Call `run`; this is its old name."""
        warn_renamed("CaseProcess.ask", "run")
        return self.run(text)

    def close(self) -> None:
        """Kill the process."""
        self._end()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> Connection[Any, Any]:
        mine, yours = socket.socketpair()
        with yours:
            path = [str(Path(__file__).parents[3]), *sys.path]
            self._process = subprocess.Popen(
                [self._python, "-m", __name__, self._backend, str(yours.fileno())],
                pass_fds=[yours.fileno()],
                cwd=self._folder.name,
                env=os.environ | self._path(path),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._connection = Connection(mine.detach())
        if not self._connection.poll(300) or self._connection.recv() != "ready":
            raise RuntimeError(f"{self._python} cannot run the backend {self._backend!r}")
        return self._connection

    def _path(self, path: list[str]) -> dict[str, str]:
        """Return the PYTHONPATH of the subprocess."""
        entries = path if self._python == sys.executable else [p for p in path if _is_checkout(p)]
        return {"PYTHONPATH": os.pathsep.join(entries)}

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._connection = self._process = None


def _is_checkout(path: str) -> bool:
    return any((Path(path) / name).is_dir() for name in ("graphmill", "graphmill_plugins"))


def main(backend: str, descriptor: int) -> None:
    """Run cases until the parent process closes the connection."""
    run = _runner_for(backend)
    with Connection(descriptor) as connection:
        connection.send("ready")
        while True:
            try:
                text = connection.recv()
            except EOFError:
                return
            result = _result(text, run)
            try:
                connection.send(result)
            except MemoryError:
                connection.send(
                    CaseResult(error="ResourceExhausted", message="the result is too large to send")
                )


def _result(text: str, run: Callable[[Case, str], CaseResult]) -> CaseResult:
    from graphmill.testing.runners.kernel_runner import NotApplicableError

    try:
        (case,) = parse_cases(text, "sweep")
        result = run(case, text)
        if {"resource", "variant"} & set(result.dtypes):
            return CaseResult(error=NO_CASE, message="handles cannot be compared")
        return result
    except NotApplicableError as reason:
        return CaseResult(error=NOT_APPLICABLE, message=str(reason))
    except SpecError as error:
        return CaseResult(error=NO_CASE, message=str(error))
    except Exception as error:  # noqa: BLE001 - every error is a result
        return CaseResult(error=NO_CASE, message=f"{type(error).__name__}: {error}")


def _runner_for(backend: str) -> Callable[[Case, str], CaseResult]:
    """Return the function that runs a case."""
    import resource

    if backend != "jax":  # XLA reserves more than it uses
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    if backend == TENSORFLOW_GRADIENTS:
        return lambda case, text: gradient_results.tensorflow_gradients(
            case, GradientRequest.of(text), timeout_ms=_WAIT_MS
        )
    if backend == GRADIENTS:
        return lambda case, text: gradient_results.graphmill_gradients(
            case, GradientRequest.of(text)
        )
    if backend == "tensorflow":
        from graphmill.testing.oracle import tensorflow_oracle

        tensorflow_oracle.version()
        return lambda case, _: tensorflow_oracle.run_case(case, timeout_ms=_WAIT_MS)
    from graphmill.testing.runners import backends

    runner = backends.runner(backend)
    return lambda case, _: runner.run(case)


def __getattr__(name: str) -> Any:
    """Resolve old names of this module."""
    return renamed_name(__name__, name)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
