"""Execute programs of clients in graphmill and in TensorFlow, and compare the results."""

from __future__ import annotations

import importlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from graphmill import proto
from graphmill.testing.generators.session_programs.program import (
    Close,
    Handle,
    Part,
    Pending,
    Run,
    SetUp,
    Step,
    Value,
    Wrong,
)
from graphmill.testing.generators.session_programs.resource import Outcome
from graphmill.testing.generators.session_programs.simulation import outcomes

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.plugin.host import Host
    from graphmill.testing.generators.session_programs.program import Program

SHORT_MS: Final = 50
"""The timeout of a step that waits; its effects until then do not depend on time."""
LONG_MS: Final = 30_000
"""The timeout of other steps, which end earlier."""
POOL: Final = {"num_threads": 4, "global_name": "session programs"}
"""Enough threads for staging areas: in TensorFlow, each waiting kernel blocks one."""


class System(Protocol):
    """A runtime that executes programs."""

    def graph(self, graph_def: bytes) -> Any:
        """Import a graph."""
        ...

    def session(self, graph: Any) -> Any:
        """Start a session."""
        ...

    def run_options(self, timeout_ms: int) -> Any:
        """Return `RunOptions`."""
        ...

    def callable_options(self, feeds: list[str], fetches: list[str], targets: list[str]) -> Any:
        """Return `CallableOptions`."""
        ...


class GraphmillSystem:
    """Executes programs with graphmill.

    Args:
        host: the host of the sessions.
        jit: the value of `config.graphmill.jit`.
    """

    def __init__(self, host: Host, jit: str = "") -> None:
        self._host = host
        self._jit = jit

    def graph(self, graph_def: bytes) -> Any:
        """Import a graph."""
        from graphmill.graph.builder import Graph

        return Graph.from_graph_def(proto.GraphDef.FromString(graph_def), self._host.ops)

    def session(self, graph: Any) -> Any:
        """Start a session."""
        from graphmill.session.session import Session

        config = proto.ConfigProto(operation_timeout_in_ms=LONG_MS)
        if self._jit:
            config.graphmill.jit = self._jit
            config.graphmill.jit_min_cluster_size = 1
            config.graphmill.jit_after_steps = 1
        return Session(graph=graph, config=config, host=self._host)

    def run_options(self, timeout_ms: int) -> Any:
        """Return `RunOptions`."""
        return proto.RunOptions(timeout_in_ms=timeout_ms)

    def callable_options(self, feeds: list[str], fetches: list[str], targets: list[str]) -> Any:
        """Return `CallableOptions`."""
        return proto.CallableOptions(feed=feeds, fetch=fetches, target=targets)


class TensorFlowSystem:
    """Executes programs with TensorFlow, without optimizing their graphs.

    Args:
        tf: the module `tensorflow`.
    """

    def __init__(self, tf: Any) -> None:
        self._v1 = tf.compat.v1
        self._tf = tf

    def graph(self, graph_def: bytes) -> Any:
        """Import a graph."""
        graph = self._tf.Graph()
        with graph.as_default():
            self._tf.import_graph_def(self._v1.GraphDef.FromString(graph_def), name="")
        return graph

    def session(self, graph: Any) -> Any:
        """Start a session."""
        from graphmill.testing.oracle.tensorflow_oracle import session_config

        config = session_config()
        config.operation_timeout_in_ms = LONG_MS
        config.session_inter_op_thread_pool.add(**POOL)
        return self._v1.Session(graph=graph, config=config)

    def run_options(self, timeout_ms: int) -> Any:
        """Return `RunOptions`."""
        return self._v1.RunOptions(timeout_in_ms=timeout_ms)

    def callable_options(self, feeds: list[str], fetches: list[str], targets: list[str]) -> Any:
        """Return `CallableOptions`."""
        messages = importlib.import_module("tensorflow.core.protobuf.config_pb2")
        return messages.CallableOptions(feed=feeds, fetch=fetches, target=targets)


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception: the names of its class and of the base classes, and its message."""

    names: tuple[str, ...]
    message: str

    @property
    def name(self) -> str:
        """The name of its class."""
        return self.names[0]


def execute(program: Program, graph_def: bytes, system: System) -> list[Any]:
    """Execute a program; return the result of each call, or a `Failure`."""
    return _Execution(program, graph_def, system).results()


class _Execution:
    def __init__(self, program: Program, graph_def: bytes, system: System) -> None:
        self._program = program
        self._system = system
        self._graph = system.graph(graph_def)
        self._sessions: dict[int, Any] = {}
        self._partial: dict[str, Any] = {}
        self._handles: dict[str, Any] = {}

    def results(self) -> list[Any]:
        waits = [outcome is Outcome.WAITS for outcome in outcomes(self._program)]
        try:
            return [
                self._result(call, wait)
                for call, wait in zip(self._program.calls, waits, strict=True)
            ]
        finally:
            self._handles.clear()
            for session in self._sessions.values():
                session.close()

    def _session(self, number: int) -> Any:
        if number not in self._sessions:
            self._sessions[number] = self._system.session(self._graph)
        return self._sessions[number]

    def _result(self, call: Any, wait: bool) -> Any:
        session = self._session(call.session)
        match call:
            case Run():
                return caught(lambda: self._run(session, call, wait))
            case Pending():
                return self._pending(session, call)
            case Wrong():
                feeds = {name: _plain(value) for name, value in call.feeds}
                return caught(lambda: session.run(call.fetches, feeds or None))
            case SetUp():
                return caught(lambda: self._set_up(session, call))
            case Part():
                return caught(lambda: self._part(session, call))
            case Close():
                return caught(session.close)
        raise TypeError(f"{call!r} is not a call")

    def _run(self, session: Any, call: Run, wait: bool) -> Any:
        names = [name for step in call.steps for name in (*step.fetches, *step.targets)]
        feeds = [feed for step in call.steps for feed in step.feeds]
        values = {name: self._value(value) for name, value in feeds}
        if call.way == "options":
            targets = [name for name in names if ":" not in name]
            fetches = [name for name in names if ":" in name]
            options = self._system.callable_options(list(values), fetches, targets)
            callable_ = session._make_callable_from_options(options)  # noqa: SLF001 - TensorFlow's name
            return callable_(*values.values())
        fetches = _structured(names, call.structure)
        if call.way == "callable":
            return session.make_callable(fetches, list(values))(*values.values())
        options = self._system.run_options(SHORT_MS) if wait else None
        result = session.run(fetches, values or None, options=options)
        return self._without_handles(call.steps, result)

    def _without_handles(self, steps: tuple[Step, ...], result: Any) -> Any:
        """Store a fetched session handle under its label; its text differs between systems."""
        labels = [step.label for step in steps if step.label]
        if not labels:
            return result
        position = 0
        for step in steps:
            if step.label:
                self._handles[step.label] = result[position]
                result[position] = "a session handle"
            position += len(step.fetches) + len(step.targets)
        return result

    def _pending(self, session: Any, call: Pending) -> list[Any]:
        results: list[Any] = []
        waiting = Run((call.waiting,), call.session)
        thread = threading.Thread(
            target=lambda: results.append(caught(lambda: self._run(session, waiting, False)))
        )
        thread.start()
        released = caught(lambda: self._run(session, Run((call.release,), call.session), False))
        thread.join()
        return [released, *results]

    def _set_up(self, session: Any, call: SetUp) -> str:
        self._partial[call.label] = session.partial_run_setup(list(call.fetches), list(call.feeds))
        return "a partial run"

    def _part(self, session: Any, call: Part) -> Any:
        feeds = {name: value.array() for name, value in call.feeds}
        handle = self._partial.get(call.label, "no partial run")
        return session.partial_run(handle, list(call.fetches), feeds)

    def _value(self, value: Value | Handle) -> Any:
        if isinstance(value, Value):
            return value.array()
        handle = self._handles.get(value.label)
        return b"no handle" if handle is None else getattr(handle, "handle", handle)


def _plain(value: Any) -> Any:
    return value.array() if isinstance(value, Value) else value


def _structured(names: list[str], structure: str) -> Any:
    if structure == "single":
        return names[0]
    if structure == "tuple":
        return tuple(names)
    if structure == "dict":
        return {f"k{i}": name for i, name in enumerate(names)}
    return [names[:1], {"rest": names[1:]}] if structure == "nested" else names


def caught(action: Callable[[], Any]) -> Any:
    """Return the result of an action, or the exception that it raises as a `Failure`."""
    try:
        return _copied(action())
    except Exception as error:  # noqa: BLE001 - which exception it is gets compared
        return Failure(tuple(one.__name__ for one in type(error).__mro__), str(error))


def _copied(result: Any) -> Any:
    """Copy the arrays of a result: one of TensorFlow's may be the buffer of a variable."""
    if isinstance(result, dict):
        return {key: _copied(value) for key, value in result.items()}
    if isinstance(result, (list, tuple)):
        return type(result)([_copied(value) for value in result])
    return result.copy() if isinstance(result, np.ndarray) else result


def differences(program: Program, expected: list[Any], actual: list[Any]) -> list[str]:
    """Return a line for each call that differs between two executions.

    A failure agrees with the expected one if its class is that class or a subclass: where
    TensorFlow raises an error of Python, that of graphmill is a status error as well.
    """
    lines = []
    both = zip(program.calls, expected, actual, strict=True)
    for number, (call, expected_result, actual_result) in enumerate(both):
        if not agree(expected_result, actual_result):
            lines.append(
                f"call {number}, {call}:\n    expected {expected_result!r}\n"
                f"    found    {actual_result!r}"
            )
    return lines


def wrong_waits(program: Program, results: list[Any]) -> list[str]:
    """Return a line for each call that waited, or did not wait, contrary to the model."""
    lines = []
    both = zip(program.calls, outcomes(program), results, strict=True)
    for number, (call, outcome, result) in enumerate(both):
        for one in result if isinstance(call, Pending) else [result]:
            late = isinstance(one, Failure) and one.name == "DeadlineExceededError"
            if late != (outcome is Outcome.WAITS):
                lines.append(f"call {number}, {call}: {outcome}, but {one!r}")
    return lines


def agree(expected: Any, actual: Any) -> bool:
    """Return whether two results are equal, up to rounding of floating values."""
    if isinstance(expected, Failure) or isinstance(actual, Failure):
        both = isinstance(expected, Failure) and isinstance(actual, Failure)
        return both and expected.name in actual.names
    if isinstance(expected, dict):
        return (
            type(actual) is type(expected)
            and list(expected) == list(actual)
            and all(agree(value, actual[key]) for key, value in expected.items())
        )
    if isinstance(expected, (list, tuple)):
        return (
            type(actual) is type(expected)
            and len(expected) == len(actual)
            and all(agree(a, b) for a, b in zip(expected, actual, strict=True))
        )
    if expected is None or actual is None:
        return expected is actual
    return _equal(np.asarray(expected), np.asarray(actual))


def _equal(expected: Any, actual: Any) -> bool:
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return False
    if expected.dtype.kind == "f":
        return bool(np.allclose(expected, actual, rtol=1e-5, atol=1e-6, equal_nan=True))
    return bool(np.array_equal(expected, actual))
