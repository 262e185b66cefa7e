"""Compute gradients of op cases with respect to their feeds, in TensorFlow and in graphmill.

Both get the same graph and add their own gradients to it. A result has one output for each floating
input: the gradient in dense form, or a tensor of the type "none".
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from graphmill import proto
from graphmill.deprecations import renamed_name
from graphmill.dtypes import as_dtype
from graphmill.ops.attrs.attr_types import ShapeAttr
from graphmill.ops.attrs.attr_value import attr_to_proto
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.testing.case_graph import case_graph, make_constant
from graphmill.testing.case_inputs import SpecError
from graphmill.testing.golden import CaseResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.testing.case import Case
    from graphmill.testing.case_inputs import Values

SMOOTH = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
"""Element types that have gradients."""
NONE = "none"
"""The type of an output that stands for "no gradient"."""
FAILS = "the case fails: "
"""The prefix of a SpecError if the case itself fails, independently of gradients."""
ROWS = " rows"
"""The suffix of the type of a gradient that is an `IndexedSlices`."""
NO_GRADIENT = "Lookup"
"""The error if an op on the path has no gradient."""

_HEADER = "# gradients of order "


@dataclass(frozen=True, slots=True)
class GradientRequest:
    """Which gradients to compute.

    Attributes:
        order: 1, or 2 for the gradients of the gradients' weighted sum.
        shapes: whether the graph has the static shapes of the inputs, and the values of those that
            are not floating as constants.
    """

    order: int = 1
    shapes: bool = True

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse the request in the first line of a text."""
        line = text.partition("\n")[0]
        if not line.startswith(_HEADER):
            return cls()
        order, _, shapes = line.removeprefix(_HEADER).partition(", shapes ")
        return cls(int(order), shapes == "known")

    def text(self, case_text: str) -> str:
        """Return a text: the request as a TOML comment, then the case."""
        shapes = "known" if self.shapes else "unknown"
        return f"{_HEADER}{self.order}, shapes {shapes}\n{case_text}"


@dataclass(frozen=True, slots=True)
class GradientGraph:
    """A graph, its floating feeds, other feeds, the steps before the last, and its results."""

    graph_def: Any
    smooth: dict[str, Values]
    others: dict[str, Values]
    before: tuple[list[str], ...]
    ys: list[str]


def gradient_graph(case: Case, request: GradientRequest) -> GradientGraph:
    """Make the graph of a case whose fetches are differentiated.

    Raises:
        SpecError: no feed is floating, or no fetch of the last step is.
    """
    parts = case_graph(case, OpRegistry())
    graph_def = proto.GraphDef()
    graph_def.CopyFrom(parts.graph_def)
    smooth: dict[str, Values] = {}
    others: dict[str, Values] = {}
    for node in graph_def.node:
        if node.op != "Placeholder":
            continue
        name = f"{node.name}:0"
        value = np.asarray(parts.feeds[name])
        dtype = as_dtype(node.attr["dtype"].type)
        (smooth if dtype.name in SMOOTH else others)[name] = value
        if not request.shapes:
            continue
        node.attr["shape"].Clear()
        if dtype.name in SMOOTH:
            attr_to_proto(ShapeAttr(value.shape), node.attr["shape"])
        else:
            make_constant(node, value)
            del others[name]
    *before, (fetches, _) = parts.steps
    count = len(fetches)
    types = parts.dtypes[len(parts.dtypes) - count :]
    ys = [name for name, dtype in zip(fetches, types, strict=True) if dtype in SMOOTH]
    if not smooth or not ys:
        raise SpecError("no feed or no fetch of the case has a gradient")
    return GradientGraph(graph_def, smooth, others, tuple([*f, *t] for f, t in before), ys)


def weights(value: Values, derivative: int = 0) -> Values:
    """Return the output gradients for a value; they depend only on its shape and `derivative`."""
    count = np.arange(value.size).reshape(value.shape) + 7 * derivative
    if np.iscomplexobj(value):
        return (np.cos(count + 1) + 1j * np.sin(count)).astype(value.dtype)
    return np.asarray(np.cos(count + 1)).astype(value.dtype)


def tensorflow_gradients(
    case: Case, request: GradientRequest, *, timeout_ms: int = 0
) -> CaseResult:
    """Compute gradients with `tf.gradients`. Needs the `tensorflow-cpu` wheel.

    Args:
        case: the case.
        request: which gradients to compute.
        timeout_ms: the timeout of a step; 0 for none.

    Raises:
        SpecError: the case itself fails, or has no gradients.
    """
    from graphmill.testing.oracle.tensorflow_oracle import session_config

    tf = importlib.import_module("tensorflow")
    v1 = tf.compat.v1
    problem = gradient_graph(case, request)
    content = problem.graph_def.SerializeToString()
    refusals: tuple[type[Exception], ...] = (  # errors that gradient functions raise
        *(LookupError, ValueError, TypeError, NotImplementedError, AssertionError, AttributeError),
    )

    def build() -> Any:
        graph = tf.Graph()
        with graph.as_default():
            tf.import_graph_def(v1.GraphDef.FromString(content), name="")
        return graph

    def session(graph: Any) -> Any:
        config = session_config()
        config.operation_timeout_in_ms = timeout_ms
        return v1.Session(graph=graph, config=config)

    def add(graph: Any, derivative: int, ys: Any, xs: Any, gradients: Any) -> Any:
        with graph.as_default():
            starts = [
                tf.constant(v, y.dtype.base_dtype) for v, y in zip(gradients, ys, strict=True)
            ]
            derivatives = tf.gradients(ys, xs, starts, name=f"gradients_{derivative}")
            rows = [hasattr(one, "values") for one in derivatives]
            return [None if one is None else tf.convert_to_tensor(one) for one in derivatives], rows

    return _result(problem, request, build, session, add, (refusals, (tf.errors.OpError,)))


def graphmill_gradients(case: Case, request: GradientRequest) -> CaseResult:
    """Compute gradients with `graphmill.gradients`.

    Raises:
        SpecError: the case itself fails, or has no gradients.
    """
    import graphmill
    from graphmill.backprop.indexed_slices import dense
    from graphmill.errors import OpError

    problem = gradient_graph(case, request)

    def add(graph: Any, derivative: int, ys: Any, xs: Any, gradients: Any) -> Any:
        with graph.as_default():
            starts = [
                graph.constant(np.asarray(v), y.dtype.base_dtype)
                for v, y in zip(gradients, ys, strict=True)
            ]
            derivatives = graphmill.gradients(ys, xs, starts, name=f"gradients_{derivative}")
            rows = [isinstance(one, graphmill.IndexedSlices) for one in derivatives]
            return [None if one is None else dense(one) for one in derivatives], rows

    return _result(
        problem,
        request,
        lambda: graphmill.Graph.from_graph_def(problem.graph_def),
        lambda graph: graphmill.Session(graph=graph),
        add,
        ((), (OpError,)),
    )


def _result(
    problem: GradientGraph,
    request: GradientRequest,
    build: Any,
    session: Any,
    add: Any,
    refusals: Any,
) -> CaseResult:
    """Compute values and gradients of each order in one system."""
    building, running = refusals
    feeds = {**problem.smooth, **problem.others}
    try:
        graph = build()
        values = _run(session(graph), problem, problem.ys, feeds)
        graph = build()
    except (*building, *running) as error:
        raise SpecError(f"{FAILS}{type(error).__name__}: {error}") from error
    xs = [graph.get_tensor_by_name(name) for name in problem.smooth]
    ys = [graph.get_tensor_by_name(name) for name in problem.ys]
    try:
        derivatives: list[Any] = []
        rows: list[bool] = []
        for derivative in range(request.order):
            gradients = [weights(np.asarray(value), derivative) for value in values]
            derivatives, rows = add(graph, derivative, ys, xs, gradients)
            ys = [one for one in derivatives if one is not None]
            if not ys or derivative == request.order - 1:
                break
            values = _run(session(graph), problem, ys, feeds)
        results = iter(_run(session(graph), problem, ys, feeds) if ys else ())
    except (*building, *running) as error:
        name = NO_GRADIENT if isinstance(error, LookupError) else type(error).__name__
        return CaseResult(error=name.removesuffix("Error"), message=str(error))
    absent = np.zeros((0,))
    outputs = [absent if one is None else np.asarray(next(results)) for one in derivatives]
    types = [_type(one, is_rows) for one, is_rows in zip(derivatives, rows, strict=True)]
    return CaseResult(tuple(outputs), tuple(types))


def _type(tensor: Any, is_rows: bool) -> str:
    if tensor is None:
        return NONE
    name: str = tensor.dtype.base_dtype.name
    return name + ROWS if is_rows else name


def _run(
    opened: Any, problem: GradientGraph, fetches: Sequence[Any], feeds: dict[str, Values]
) -> Any:
    with opened as session:
        for step in problem.before:
            session.run(step, feeds)
        return session.run(list(fetches), feeds)


def __getattr__(name: str) -> Any:
    """Resolve old names of this module."""
    return renamed_name(__name__, name)
