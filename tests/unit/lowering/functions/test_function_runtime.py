"""Functions are instantiated once per set of attrs, up to a maximum depth (clause E10)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors
from graphmill.lowering.functions.function_runtime import MAX_CALL_DEPTH
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.testing.proto_builders import const_def, function_def, graph_def, node_def

if TYPE_CHECKING:
    from collections.abc import Callable

X = node_def("x", "Placeholder", dtype="int32")


def if_node(name: str, condition: str, arg: str, then: str, otherwise: str) -> Any:
    branches = {"then_branch": FuncAttr(then), "else_branch": FuncAttr(otherwise)}
    types = {"Tcond": "bool", "Tin": ["int32"], "Tout": ["int32"]}
    return node_def(name, "If", condition, arg, **types, **branches)


def unary(name: str, result: str, *nodes: Any) -> Any:
    """A function from int32 to int32."""
    return function_def(name, {"n": "int32"}, {"y": ("int32", result)}, *nodes)


# sum_to(n) = 1 if n <= 1 else n + sum_to(n - 1); each trip is two calls deep: itself and a branch.
SUM_TO = [
    unary(
        "sum_to",
        "if:output:0",
        const_def("one", 1),
        node_def("le", "LessEqual", "n", "one:output:0", T="int32"),
        if_node("if", "le:z:0", "n", "stop", "recur"),
    ),
    unary("stop", "one:output:0", const_def("one", 1)),
    unary(
        "recur",
        "sum:z:0",
        const_def("one", 1),
        node_def("less", "Sub", "n", "one:output:0", T="int32"),
        node_def("call", "sum_to", "less:z:0"),
        node_def("sum", "AddV2", "n", "call:y:0", T="int32"),
    ),
]


@pytest.fixture
def sum_to() -> Any:
    """A callable of the recursive function in a session."""
    message = graph_def(X, node_def("y", "sum_to", "x"), functions=SUM_TO)
    with graphmill.Session(graph=message) as session:
        yield session.make_callable("y:0", ["x:0"])


def nested_ifs(depth: int) -> Any:
    """A graph with `depth` nested function calls, each in a branch of the last."""
    functions = [
        unary(
            f"f{index}",
            "if:output:0",
            const_def("yes", np.bool_(True)),
            if_node("if", "yes:output:0", "n", f"f{index + 1}", f"f{index + 1}"),
        )
        for index in range(depth - 1)
    ]
    last = unary(f"f{depth - 1}", "y:y:0", node_def("y", "Neg", "n", T="int32"))
    first = if_node("y", "yes", "x", "f0", "f0")
    return graph_def(X, const_def("yes", np.bool_(True)), first, functions=[*functions, last])


def at_depth(frames: int, call: Callable[[], Any]) -> Any:
    """Call a function with additional frames on the stack."""
    return call() if frames <= 0 else at_depth(frames - 1, call)


def test_e10_recursion_runs(sum_to: Any) -> None:
    assert [sum_to(n) for n in (0, 1, 2, 10)] == [1, 1, 3, 55]


def test_e10_recursion_runs_to_the_stated_depth(sum_to: Any) -> None:
    assert sys.getrecursionlimit() <= MAX_CALL_DEPTH
    n = MAX_CALL_DEPTH // 2
    assert sum_to(n) == n * (n + 1) // 2


def test_e10_recursion_limit_is_a_typed_error(
    sum_to: Any,
) -> None:
    with pytest.raises(errors.ResourceExhaustedError, match=f"more than {MAX_CALL_DEPTH} deep"):
        sum_to(100 * MAX_CALL_DEPTH)
    assert sum_to(3) == 6


def test_e10_the_depth_does_not_depend_on_the_callers_stack(sum_to: Any) -> None:
    used = _frames_in_use()
    free = sys.getrecursionlimit() - used
    n = MAX_CALL_DEPTH // 2
    assert at_depth(free // 2, lambda: sum_to(n)) == n * (n + 1) // 2


def _frames_in_use() -> int:
    frame, count = sys._getframe(), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1
    return count


def test_e10_functions_nest_to_the_stated_depth() -> None:
    with graphmill.Session(graph=nested_ifs(MAX_CALL_DEPTH)) as session:
        assert session.run("y:0", {"x:0": 7}) == -7


def test_e10_functions_that_nest_deeper_are_refused() -> None:
    with (
        graphmill.Session(graph=nested_ifs(MAX_CALL_DEPTH + 20)) as session,
        pytest.raises(errors.ResourceExhaustedError, match="deep; the innermost is 'f"),
    ):
        session.run("y:0", {"x:0": 7})


@pytest.mark.parametrize("by_name", [True, False])
def test_e10_a_recursion_without_end_is_a_typed_error(by_name: bool) -> None:
    attrs = {"Tin": ["int32"], "Tout": ["int32"], "f": FuncAttr("F")}
    call = node_def("y", "F", "n") if by_name else node_def("y", "PartitionedCall", "n", **attrs)
    function = unary("F", "y:y:0" if by_name else "y:output:0", call)
    message = graph_def(X, node_def("y", "F", "x"), functions=[function])
    with graphmill.Session(graph=message) as session:
        with pytest.raises(errors.ResourceExhaustedError, match="The recursion may be infinite"):
            session.run("y:0", {"x:0": 1})
        assert session.run("x:0", {"x:0": 1}) == 1


def test_e10_error_in_function_keeps_its_node() -> None:
    divide = unary("divide", "z:z:0", node_def("z", "FloorDiv", "n", "n", T="int32"))
    outer = if_node("outer", "yes", "x", "divide", "divide")
    message = graph_def(X, const_def("yes", np.bool_(True)), outer, functions=[divide])
    with (
        graphmill.Session(graph=message) as session,
        pytest.raises(errors.InvalidArgumentError) as caught,
    ):
        session.run("outer:0", {"x:0": 0})
    assert (caught.value.node, caught.value.op_type) == ("z", "FloorDiv")


def test_e10_a_function_without_results_is_run_for_its_effect() -> None:
    fail = function_def(
        "fail",
        {"n": "int32"},
        {},
        const_def("no", np.bool_(False)),
        node_def("assert", "Assert", "no:output:0", "n", T=["int32"], summarize=3),
    )
    message = graph_def(X, node_def("call", "fail", "x"), functions=[fail])
    with graphmill.Session(graph=message) as session, pytest.raises(errors.InvalidArgumentError):
        session.run("call", {"x:0": 1})


def test_e10_a_function_may_have_several_results() -> None:
    both = function_def(
        "both",
        {"n": "int32"},
        {"same": ("int32", "n"), "less": ("int32", "neg:y:0")},
        node_def("neg", "Neg", "n", T="int32"),
    )
    message = graph_def(X, node_def("call", "both", "x"), functions=[both])
    with graphmill.Session(graph=message) as session:
        assert session.run(["call:0", "call:1"], {"x:0": 4}) == [4, -4]


def test_e10_function_is_instantiated_per_attr_set() -> None:
    double = function_def("double", {"x": "float32"}, {}, node_def("sum", "AddV2", "x", "x"))
    signature = double.signature
    signature.attr.add(name="T", type="type")
    signature.input_arg[0].type = 0
    signature.input_arg[0].type_attr = "T"
    signature.output_arg.add(name="y", type_attr="T")
    double.ret["y"] = "sum:z:0"
    double.node_def[0].attr["T"].placeholder = "T"
    message = graph_def(
        X,
        node_def("f", "Placeholder", dtype="float32"),
        node_def("a", "double", "x", T="int32"),
        node_def("b", "double", "f", T="float32"),
        functions=[double],
    )
    with graphmill.Session(graph=message) as session:
        a, b = session.run(["a:0", "b:0"], {"x:0": 2, "f:0": 1.25})
    assert (a, b) == (4, 2.5)
    assert (a.dtype, b.dtype) == (np.int32, np.float32)


@pytest.fixture
def runtime() -> Any:
    """The function library runtime of a session with some functions."""
    wants_attr = unary("wants_attr", "c:output:0", node_def("c", "Const", dtype="int32"))
    wants_attr.node_def[0].attr["value"].placeholder = "value"
    wants_attr.signature.attr.add(name="value", type="tensor")
    with graphmill.Session(graph=graph_def(X, functions=[*SUM_TO, wants_attr])) as session:
        impl = session._impl
        yield impl._function_runtime(impl.devices.host)


def test_e10_the_same_attrs_give_the_same_instance(runtime: Any) -> None:
    assert runtime.instantiate("stop") is runtime.instantiate("stop", {"_other": 1})


def test_e10_a_missing_function_is_not_found(runtime: Any) -> None:
    with pytest.raises(errors.NotFoundError, match="no function 'sumto'; did you mean 'sum_to'"):
        runtime.instantiate("sumto")


def test_e10_an_attr_that_is_missing(runtime: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="needs attr 'value'; the call has none"):
        runtime.instantiate("wants_attr")


def test_e10_the_wrong_number_of_arguments_is_refused() -> None:
    body = {"cond": FuncAttr("stop"), "body": FuncAttr("stop"), "T": ["int32", "int32"]}
    message = graph_def(X, node_def("y", "While", "x", "x", **body), functions=SUM_TO)
    with (
        graphmill.Session(graph=message) as session,
        pytest.raises(
            errors.InvalidArgumentError, match=r"'stop' takes \(int32\), expected \(int32, int32\)"
        ),
    ):
        session.run("y:0", {"x:0": 1})


def test_e10_functions_are_dropped_with_the_session(runtime: Any) -> None:
    handle = runtime.instantiate("stop")
    runtime.close()
    assert runtime.instantiate("stop") is not handle


def test_e10_result_in_untaken_branch_is_reported() -> None:
    dead = function_def(
        "dead",
        {"n": "int32"},
        {"y": ("int32", "switch:output_true:0")},
        const_def("no", np.bool_(False)),
        node_def("switch", "Switch", "n", "no:output:0", T=dtypes.int32),
    )
    message = graph_def(X, node_def("y", "dead", "x"), functions=[dead])
    with (
        graphmill.Session(graph=message) as session,
        pytest.raises(errors.InvalidArgumentError, match=r"not taken|not evaluated"),
    ):
        session.run("y:0", {"x:0": 1})


class CallPlugin:
    """An op whose kernel calls a function and blocks its thread until it returns."""

    @graphmill.hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        x, y = ArgDef("x", dtypes.int32), ArgDef("y", dtypes.int32)
        ops.add(OpDef("Probe>Call", (x,), (y,), (AttrDef("f", "func"),), is_stateful=True))

    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        @graphmill.kernel("Probe>Call", stateful=True)
        def call(ctx: Any, x: Any, *, f: Any) -> Any:
            (y,) = ctx.functions.run(ctx.functions.instantiate(f.name, f.attrs), [x], ctx)
            return y

        kernels.add(call)


def calling(function: Any, *others: Any, config: Any = None) -> Any:
    call = node_def("y", "Probe>Call", "x", f=FuncAttr(function.signature.name))
    message = graph_def(X, call, functions=[function, *others])
    host = graphmill.Host(plugins=[CallPlugin()])
    return graphmill.Session(graph=message, host=host, config=config)


def test_e10_a_kernel_may_call_a_function_and_wait_for_it() -> None:
    with calling(SUM_TO[0], *SUM_TO[1:]) as session:
        assert session.run("y:0", {"x:0": 10}) == 55
        assert session.run("y:0", {"x:0": 100}) == 5050


def test_e10_error_in_awaited_function_keeps_its_node() -> None:
    divide = unary("divide", "z:z:0", node_def("z", "FloorDiv", "n", "n", T="int32"))
    with calling(divide) as session, pytest.raises(errors.InvalidArgumentError) as caught:
        session.run("y:0", {"x:0": 0})
    assert caught.value.node == "z"


def test_e10_missing_result_is_reported_to_waiters() -> None:
    switch = node_def("switch", "Switch", "n", "no:output:0", T="int32")
    dead = unary("dead", "switch:output_true:0", const_def("no", np.bool_(False)), switch)
    with (
        calling(dead) as session,
        pytest.raises(errors.InvalidArgumentError, match="'dead': result 0 was not computed"),
    ):
        session.run("y:0", {"x:0": 0})


TWO_CPUS = {"device_count": {"CPU": 2, "GPU": 0}}


def on_two_devices(name: str) -> Any:
    return unary(
        name,
        "there:y:0",
        node_def("here", "Neg", "n", T="int32", device="/cpu:0"),
        node_def("there", "Neg", "here:y:0", T="int32", device="/cpu:1"),
    )


def test_e10_a_function_may_run_on_several_devices() -> None:
    with calling(on_two_devices("f"), config=TWO_CPUS) as session:
        assert session.run("y:0", {"x:0": 3}) == 3
    branch = if_node("y", "yes", "x", "f", "f")
    message = graph_def(
        X, const_def("yes", np.bool_(True)), branch, functions=[on_two_devices("f")]
    )
    with graphmill.Session(graph=message, config=TWO_CPUS) as session:
        assert session.run("y:0", {"x:0": 3}) == 3


@pytest.mark.parametrize("executor_type", ["DEFAULT", "INLINE", "SINGLE_THREADED_EXECUTOR"])
@pytest.mark.parametrize("target", ["/cpu:0", "/cpu:1"])
def test_e10_remote_call_runs_on_the_named_device(target: str, executor_type: str) -> None:
    """A remote call runs on the named device, which the statistics of the function show."""
    call = node_def(
        "call",
        "RemoteCall",
        *("target", "x"),
        device="/cpu:0",
        Tin=["int32"],
        Tout=["int32"],
        f=FuncAttr("negative"),
    )
    function = unary("negative", "inside:y:0", node_def("inside", "Neg", "n", T="int32"))
    where = node_def("target", "Placeholder", dtype="string", device="/cpu:0")
    message = graph_def(X, where, call, functions=[function])
    config = {**TWO_CPUS, "experimental": {"executor_type": executor_type}}
    metadata = graphmill.RunMetadata()
    with graphmill.Session(graph=message, config=config) as session:
        full = {"trace_level": graphmill.RunOptions.FULL_TRACE}
        feeds = {"x:0": 3, "target:0": target}
        assert session.run("call:0", feeds, options=full, run_metadata=metadata) == -3
        with pytest.raises(errors.InvalidArgumentError, match="has no device '/cpu:7'"):
            session.run("call:0", {"x:0": 3, "target:0": "/cpu:7"})
    ran_on = {
        device.device[-5:].lower()
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
        if node.node_name == "inside"
    }
    assert ran_on == {target[1:]}


def test_e10_each_device_has_its_runtime(runtime: Any) -> None:
    assert runtime.on_device("/cpu:0") is runtime
    assert runtime.device.device_type == "CPU"
    assert runtime.on_device("").device in list(runtime._options.devices)
    with pytest.raises(
        errors.InvalidArgumentError, match="has no device '/cpu:7'; available: /job"
    ):
        runtime.on_device("/cpu:7")


def test_function_of_references_is_refused_where_it_is_passed_as_an_attr() -> None:
    less = node_def("less", "Less", "n", "n", T="int64")
    keep = function_def("keep", {"n": "int64"}, {"y": ("bool", "less:z:0")}, less)
    keep.signature.input_arg[0].is_ref = True
    constants = [const_def(name, np.int64(value)) for name, value in (("a", 0), ("b", 3), ("c", 1))]
    nodes = [
        node_def("d", "RangeDataset", "a", "b", "c"),
        node_def("e", "FilterDataset", "d", predicate=FuncAttr("keep")),
        node_def("y", "DatasetToSingleElement", "e"),
    ]
    for node in nodes:
        node.attr["output_types"].list.type.append(dtypes.int64.as_datatype_enum)
        node.attr["output_shapes"].list.shape.add()
    nodes[1].attr["Targuments"].list.SetInParent()
    message = graph_def(*constants, *nodes, functions=[keep])
    with (
        graphmill.Session(graph=message) as session,
        pytest.raises(errors.InvalidArgumentError, match="'keep' is a reference"),
    ):
        session.run("y:0")
