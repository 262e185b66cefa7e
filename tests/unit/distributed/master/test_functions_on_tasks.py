"""Conditionals, loops and functions with nodes on several tasks of a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.unit.distributed.master.conftest import Master, run
from tests.unit.distributed.worker.conftest import cpu

import graphmill
from graphmill import errors
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.testing.proto_builders import const_def, function_def, graph_def, node_def

F32 = graphmill.float32
NEAR, FAR = cpu(0), cpu(1)


def call(name: str, op: str, *inputs: str, device: str = "", **attrs: Any) -> Any:
    """Return a node that calls functions and requests lowering."""
    functions = {key: FuncAttr(value) for key, value in attrs.pop("functions").items()}
    return node_def(
        name, op, *inputs, device=device, _lower_using_switch_merge=True, **functions, **attrs
    )


def unary(name: str, op: str, device: str = "", dtype: str = "float32") -> Any:
    """Return a function of one argument whose only node requests a device."""
    return function_def(
        name,
        {"x": dtype},
        {"r": (dtype, "n:y:0")},
        node_def("n", op, "x", device=device, T=graphmill.as_dtype(dtype)),
    )


def branches(op: str = "If", **attrs: Any) -> Any:
    types = {"Tin": [F32], "Tout": [F32], **attrs}
    functions = {"then_branch": "far", "else_branch": "near"}
    return call("c", op, "p", "x", functions=functions, **types)


def placeholders(condition: Any = graphmill.bool) -> list[Any]:
    return [
        node_def("p", "Placeholder", dtype=condition),
        node_def("x", "Placeholder", dtype=F32),
    ]


FUNCTIONS = [unary("far", "Neg", FAR), unary("near", "Square", NEAR)]


def session_of(master: Master, *nodes: Any, functions: Any = FUNCTIONS) -> Any:
    message = graph_def(*nodes, functions=functions)
    return master.session(graphmill.Graph.from_graph_def(message))


@pytest.mark.parametrize("op", ["If", "StatelessIf"])
@pytest.mark.parametrize(
    ("condition", "yes", "no"),
    [(graphmill.bool, True, False), (graphmill.int32, 5, 0), (graphmill.string, b"a", b"")],
)
def test_branches_run_on_two_tasks(
    master: Master, op: str, condition: Any, yes: Any, no: Any
) -> None:
    session = session_of(master, *placeholders(condition), branches(op, Tcond=condition))
    assert run(session, ["c:0"], {"p:0": yes, "x:0": 3.0}) == [-3]
    assert run(session, ["c:0"], {"p:0": no, "x:0": 3.0}) == [9]
    registered = [node.op for worker in master.workers for node in registered_nodes(worker)]
    assert op not in registered
    assert registered.count("Merge") == 2


def registered_nodes(worker: Any) -> list[Any]:
    return [
        node for request in worker.requests("register_graph") for node in request.graph_def.node
    ]


@pytest.mark.parametrize(("index", "expected"), [(0, -3), (1, 9), (2, 0), (7, 0), (-1, 0)])
def test_out_of_range_case_index_takes_the_last_branch(
    master: Master, index: int, expected: float
) -> None:
    names = ["far", "near", "zero"]
    case = call(
        "c", "Case", "p", "x", functions={}, Tin=[F32], Tout=[F32],
        branches=[FuncAttr(name) for name in names],
    )  # fmt: skip
    functions = [*FUNCTIONS, unary("zero", "ZerosLike", FAR)]
    session = session_of(master, *placeholders(graphmill.int32), case, functions=functions)
    assert run(session, ["c:0"], {"p:0": index, "x:0": 3.0}) == [expected]


COUNT = function_def(
    "less", {"i": "int32", "y": "float32"}, {"r": ("bool", "n:z:0")},
    const_def("five", np.int32(5)), node_def("n", "Less", "i", "five:output:0", T=graphmill.int32),
)  # fmt: skip
STEP = function_def(
    "step", {"i": "int32", "y": "float32"}, {"r": ("int32", "n:z:0"), "s": ("float32", "d:z:0")},
    const_def("one", np.int32(1)), node_def("n", "AddV2", "i", "one:output:0", T=graphmill.int32),
    node_def("d", "AddV2", "y", "y", device=FAR, T=F32),
)  # fmt: skip


def loop(name: str, start: str, value: str, **attrs: Any) -> Any:
    types = {"T": [graphmill.int32, F32], **attrs}
    return call(name, "While", start, value, functions={"cond": "less", "body": "step"}, **types)


def test_loop_runs_across_two_tasks(master: Master) -> None:
    nodes = [*placeholders(graphmill.int32), loop("w", "p", "x")]
    session = session_of(master, *nodes, functions=[COUNT, STEP])
    assert run(session, ["w:0", "w:1"], {"p:0": 0, "x:0": 1.0}) == [5, 32]
    assert run(session, ["w:0", "w:1"], {"p:0": 9, "x:0": 1.0}) == [9, 1]


def test_a_loop_in_a_branch_in_a_function_runs_on_tasks(master: Master) -> None:
    looped = function_def(
        "looped", {"x": "float32"}, {"r": ("float32", "w:output:1")},
        const_def("zero", np.int32(0)), loop("w", "zero:output:0", "x"),
    )  # fmt: skip
    chosen = function_def(
        "chosen", {"p": "bool", "x": "float32"}, {"r": ("float32", "c:output:0")},
        call("c", "If", "p", "x", functions={"then_branch": "looped", "else_branch": "near"},
             Tcond=graphmill.bool, Tin=[F32], Tout=[F32]),
    )  # fmt: skip
    called = node_def(
        "f", "PartitionedCall", "p", "x", f=FuncAttr("chosen"),
        Tin=[graphmill.bool, F32], Tout=[F32],
    )  # fmt: skip
    functions = [COUNT, STEP, looped, chosen, *FUNCTIONS]
    session = session_of(master, *placeholders(), called, functions=functions)
    assert run(session, ["f:0"], {"p:0": True, "x:0": 1.0}) == [32]
    assert run(session, ["f:0"], {"p:0": False, "x:0": 3.0}) == [9]


def test_untaken_branch_has_no_effects(master: Master) -> None:
    handle = {"handle": "resource"}
    add = function_def(
        "add", handle, {}, const_def("one", np.float32(1)),
        node_def("n", "AssignAddVariableOp", "handle", "one:output:0", dtype=F32),
    )  # fmt: skip
    nothing = function_def("nothing", handle, {})
    functions = {"then_branch": "add", "else_branch": "nothing"}
    types: dict[str, Any] = {"Tcond": graphmill.bool, "Tin": [graphmill.resource], "Tout": []}
    session = session_of(
        master,
        node_def("p", "Placeholder", dtype=graphmill.bool),
        node_def("v", "VarHandleOp", device=FAR, dtype=F32, shape=(), shared_name=b"v"),
        const_def("start", np.float32(5)),
        node_def("init", "AssignVariableOp", "v", "start", dtype=F32),
        call("c", "If", "p", "v", functions=functions, **types),
        node_def("y", "ReadVariableOp", "v", "^c", dtype=F32),
        functions=[add, nothing],
    )
    run(session, targets=["init"])
    found = [run(session, ["y:0"], {"p:0": flag})[0] for flag in (True, False, True)]
    assert found == [6, 6, 7]


def test_a_function_that_names_tasks_is_inlined_and_waits(master: Master) -> None:
    plain = unary("plain", "Neg")
    attrs: dict[str, Any] = {"Tin": [F32], "Tout": [F32]}
    session = session_of(
        master,
        node_def("x", "Placeholder", dtype=F32),
        node_def("a", "PartitionedCall", "x", f=FuncAttr("far"), **attrs),
        node_def("b", "PartitionedCall", "a", device=FAR, f=FuncAttr("plain"), **attrs),
        node_def("bad", "CheckNumerics", "x", message=b"no number", T=F32),
        node_def("late", "PartitionedCall", "x", "^bad", f=FuncAttr("far"), **attrs),
        functions=[*FUNCTIONS, plain],
    )
    assert run(session, ["b:0", "a:0"], {"x:0": 2.0}) == [2, -2]
    with pytest.raises(errors.InvalidArgumentError, match="no number"):
        run(session, ["late:0"], {"x:0": np.nan})


def test_inlined_call_in_untaken_branch_is_dead(master: Master) -> None:
    # Nothing in the function depends on its argument.
    failing = function_def(
        "failing", {"x": "float32"}, {"r": ("float32", "n:output:0")},
        const_def("nan", np.float32(np.nan)),
        node_def("n", "CheckNumerics", "nan:output:0", device=FAR, message=b"no number", T=F32),
    )  # fmt: skip
    attrs: dict[str, Any] = {"Tin": [F32], "Tout": [F32]}
    called = function_def(
        "called", {"x": "float32"}, {"r": ("float32", "f:output:0")},
        node_def("f", "PartitionedCall", "x", f=FuncAttr("failing"), **attrs),
    )  # fmt: skip
    choice = call("c", "If", "p", "x", functions={"then_branch": "called", "else_branch": "near"},
                  Tcond=graphmill.bool, **attrs)  # fmt: skip
    functions = [failing, called, *FUNCTIONS]
    session = session_of(master, *placeholders(), choice, functions=functions)
    assert run(session, ["c:0"], {"p:0": False, "x:0": 3.0}) == [9]
    with pytest.raises(errors.InvalidArgumentError, match="no number"):
        run(session, ["c:0"], {"p:0": True, "x:0": 3.0})


def test_call_is_inlined_into_the_frame_of_its_loop(master: Master) -> None:
    doubled = function_def(
        "doubled", {"x": "float32"}, {"r": ("float32", "n:z:0")},
        const_def("two", np.float32(2)),
        node_def("n", "Mul", "x", "two:output:0", device=FAR, T=F32),
    )  # fmt: skip
    step = function_def(
        "step", {"i": "int32", "y": "float32"},
        {"r": ("int32", "n:z:0"), "s": ("float32", "f:output:0")},
        const_def("one", np.int32(1)),
        node_def("n", "AddV2", "i", "one:output:0", T=graphmill.int32),
        node_def("f", "PartitionedCall", "y", f=FuncAttr("doubled"), Tin=[F32], Tout=[F32]),
    )  # fmt: skip
    nodes = [*placeholders(graphmill.int32), loop("w", "p", "x")]
    session = session_of(master, *nodes, functions=[COUNT, step, doubled])
    assert run(session, ["w:0", "w:1"], {"p:0": 0, "x:0": 1.0}) == [5, 32]


def test_missing_function_is_reported_with_its_node(master: Master) -> None:
    nodes = [*placeholders(), branches(Tcond=graphmill.bool)]
    session = session_of(master, *nodes, functions=[FUNCTIONS[0]])
    with pytest.raises(errors.OpError, match="near"):
        run(session, ["c:0"], {"p:0": False, "x:0": 3.0})


def test_node_inside_a_function_is_fetched_and_watched(master: Master) -> None:
    plain = node_def("f", "PartitionedCall", "x", f=FuncAttr("far"), Tin=[F32], Tout=[F32])
    session = session_of(master, *placeholders(), plain, node_def("y", "Square", "f", T=F32))
    assert run(session, ["f/n:0", "y:0"], {"x:0": 3.0}) == [-3, 9]
    seen: list[Any] = []
    master.cluster.host.debug_callbacks["seen"] = seen.append
    options = graphmill.RunOptions()
    options.debug_options.debug_tensor_watch_opts.add(
        node_name="f/n", debug_ops=["DebugIdentity"], debug_urls=["callback://seen"]
    )
    assert run(session, ["y:0"], {"x:0": 3.0}, options=options) == [9]
    assert [(watched.node_name, watched.value) for watched in seen] == [("f/n", -3)]
