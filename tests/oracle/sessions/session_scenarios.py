"""Scenarios that show the behaviour of each public method of sessions in either system.

A scenario is a function of a `Runtime` and of a class of sessions, `Session` or
`InteractiveSession`; its result is the same in both systems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from tests.oracle.sessions.runtimes import Runtime, outcome, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    Scenario = Callable[[Runtime, str], Any]

SCENARIOS: Final[dict[str, Scenario]] = {}
KINDS: Final = ("Session", "InteractiveSession")
NOT_INTERACTIVE: Final = {
    **dict.fromkeys(("reset", "__enter__", "__exit__"), "TensorFlow's has no such method"),
    **dict.fromkeys(
        ("partial_run", "partial_run_setup"),
        "TensorFlow's prunes its graph before it is placed, and does not find the second feed then",
    ),
}
"""Methods that are not compared for `InteractiveSession`, with the reason."""

NODES: Final = (
    "one = Const(dtype=float32, value='float32: 1')",
    "sum = AddV2(x, one)",
    "product = Mul(sum, z)",
    "nothing = NoOp(after=[sum])",
)
FED: Final = {"x": "float32: 0", "z": "float32: 0"}


def shows(*names: str) -> Callable[[Scenario], Scenario]:
    """Declare the methods that a scenario shows."""

    def register(scenario: Scenario) -> Scenario:
        for name in names:
            SCENARIOS[name] = scenario
        return scenario

    return register


def start(runtime: Runtime, kind: str, config: dict[str, Any] | None = None) -> Any:
    """Start a session of the nodes above."""
    graph = runtime.graph(NODES, FED)
    message = runtime.message("ConfigProto", config or {})
    return getattr(runtime.api, kind)(graph=graph, config=message)


@shows("run")
def run(runtime: Runtime, kind: str) -> Any:
    session = start(runtime, kind)
    graph = session.graph
    x, total = graph.get_tensor_by_name("x:0"), graph.get_tensor_by_name("sum:0")
    node = graph.get_operation_by_name("nothing")
    options, metadata = runtime.message("RunOptions", {}), runtime.messages.RunMetadata()
    calls: list[Callable[[], Any]] = [
        lambda: session.run(total, {x: 1}),
        lambda: session.run("sum:0", {"x:0": 1}, options, metadata),
        lambda: session.run(["sum:0", node, {"a": (total, "nothing")}], feed_dict={x: 2.0}),
        lambda: session.run(total),
        lambda: session.run(None),
        lambda: session.run("sum"),
        lambda: session.run("other:0"),
        lambda: session.run(node, {x: [1.0, 2.0]}),
        lambda: session.run(total, {"other:0": 1}),
        lambda: session.run(total, {x: total}),
        lambda: session.run(total, {x: "text"}),
        lambda: session.run(total, [1]),
        lambda: session.run([], {}),
        lambda: session.run(total, {total: 5.0}),
    ]
    found = [outcome(call) for call in calls]
    session.close()
    return found


@shows("make_callable")
def make_callable(runtime: Runtime, kind: str) -> Any:
    session = start(runtime, kind)
    options, metadata = runtime.message("RunOptions", {}), runtime.messages.RunMetadata()
    accepting = session.make_callable("sum:0", ["x:0"], accept_options=True)
    calls: list[Callable[[], Any]] = [
        lambda: session.make_callable("sum:0", ["x:0"])(np.float32(1)),
        lambda: session.make_callable(["sum:0", "nothing"], ["x:0"])(np.float32(1)),
        lambda: session.make_callable("one:0")(),
        lambda: accepting(np.float32(2), options=options, run_metadata=metadata),
        lambda: session.make_callable("sum:0")(),
        lambda: session.make_callable("other:0"),
        lambda: session.make_callable("sum:0", ["other:0"])(np.float32(1)),
    ]
    found = [outcome(call) for call in calls]
    session.close()
    return found


@shows("partial_run_setup", "partial_run")
def partial_run(runtime: Runtime, kind: str) -> Any:
    session = start(runtime, kind)
    handle = session.partial_run_setup(["sum:0", "product:0"], ["x:0", "z:0"])
    calls: list[Callable[[], Any]] = [
        lambda: session.partial_run(handle, "sum:0", {"x:0": 2}),
        lambda: session.partial_run(handle, "sum:0"),
        lambda: session.partial_run(handle, "product:0", {"x:0": 2}),
        lambda: session.partial_run(handle, {"p": "product:0"}, {"z:0": 5}),
        lambda: session.partial_run(handle, "product:0"),
        lambda: session.partial_run_setup("sum:0", ["x:0", "x:0"]),
        lambda: session.partial_run_setup("other:0", ["x:0"]),
    ]
    found = [outcome(call) for call in calls]
    session.close()
    return found


@shows("list_devices")
def list_devices(runtime: Runtime, kind: str) -> Any:
    session = start(runtime, kind, {"deviceCount": {"CPU": 2}})
    found = [
        (one.name, one.device_type) for one in session.list_devices() if one.device_type == "CPU"
    ]
    session.close()
    return found


@shows("close")
def close(runtime: Runtime, kind: str) -> Any:
    session = start(runtime, kind)
    found = [plain(session.run("one:0")), session.close(), session.close()]
    calls: list[Callable[[], Any]] = [
        lambda: session.run("one:0"),
        lambda: session.make_callable("one:0")(),
        lambda: session.partial_run_setup("sum:0", ["x:0"]),
        lambda: session.list_devices(),
    ]
    return [*found, *(outcome(call) for call in calls)]


@shows("graph", "graph_def")
def graph(runtime: Runtime, kind: str) -> Any:
    session = start(runtime, kind)
    names = [node.name for node in session.graph_def.node]
    found = [sorted(names), session.graph is session.graph]
    found.append(sorted(node.name for node in session.graph.get_operations()))
    found.append(type(outcome(lambda: setattr(session, "graph", None))).__name__)
    session.close()
    return found


@shows("as_default")
def as_default(runtime: Runtime, kind: str) -> Any:
    session, api = start(runtime, kind), runtime.api
    outside = api.get_default_session()
    found = [outside is session]
    with session.as_default() as entered:
        found += [entered is session, api.get_default_session() is session]
        found.append(plain(session.graph.get_tensor_by_name("sum:0").eval({"x:0": 3})))
        found.append(session.graph.get_operation_by_name("nothing").run({"x:0": 3}))
    found.append(api.get_default_session() is outside)
    found.append(plain(session.run("one:0")))
    session.close()
    return found


@shows("sess_str")
def sess_str(runtime: Runtime, kind: str) -> Any:
    session = start(runtime, kind)
    found = session.sess_str
    session.close()
    return found.decode() if isinstance(found, bytes) else found


@shows("reset")
def reset(runtime: Runtime, kind: str) -> Any:
    nodes = (
        "one = Const(dtype=float32, value='float32: 1')",
        "v = VarHandleOp(dtype=float32, shape=[], shared_name='v', container='c')",
        "set = AssignVariableOp(v, one)",
        "ready = VarIsInitializedOp(v)",
    )
    server = runtime.server()
    found = []
    with runtime.session(runtime.graph(nodes), {}, server.target) as session:
        session.run("set")
        found.append(bool(session.run("ready:0")))
    for containers in (["other"], ["c"]):
        getattr(runtime.api, kind).reset(server.target, containers)
        with runtime.session(runtime.graph(nodes), {}, server.target) as session:
            found.append(bool(session.run("ready:0")))
    return found


@shows("__enter__", "__exit__")
def context(runtime: Runtime, kind: str) -> Any:
    api = runtime.api
    with start(runtime, kind) as session:
        found = [api.get_default_session() is session]
        found.append(plain(session.graph.get_tensor_by_name("one:0").eval()))
    found.append(api.get_default_session() is None)
    return [*found, outcome(lambda: session.run("one:0"))]


@shows("__init__")
def creation(runtime: Runtime, kind: str) -> Any:
    make = getattr(runtime.api, kind)
    made = [
        lambda: make(graph=3).run("x:0"),
        lambda: make(target=3),
        lambda: make(config=3),
        lambda: make("unknown://target"),
        lambda: make(graph=runtime.graph(())).run("x:0"),
    ]
    return [type(outcome(one)).__name__ for one in made]
