"""Check the gradient of an op against central finite differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill import proto
from graphmill.backprop.gradients import gradients
from graphmill.backprop.indexed_slices import IndexedSlices
from graphmill.dtypes import as_dtype
from graphmill.graph.builder import Graph
from graphmill.ops.definition.effects import effects_of
from graphmill.session.session import Session
from graphmill.testing.case_graph import NODE, case_graph, make_constant

if TYPE_CHECKING:
    from graphmill.plugin.host import Host
    from graphmill.testing.case import Case

_MAX_ELEMENTS: Final = 2000  # of an input; rounding errors grow with the number of elements


class _Accuracy(NamedTuple):
    """How a type is differentiated: the steps, one of which must agree, and the tolerances."""

    steps: tuple[float, ...]
    rtol: float
    atol: float


# Rounding errors are about epsilon / step, those of curvature step ** 2. A second, smaller step
# agrees where the first one crosses a kink.
_ACCURACY: Final = {
    "float64": _Accuracy((1e-6, 1e-7), 1e-4, 1e-6),
    "float32": _Accuracy((1e-2, 1e-3), 2e-2, 2e-3),
}


def why_not_checked(case: Case, host: Host) -> str:
    """Return why a case has no finite differences, or ""."""
    op_def = host.ops.get(case.op)
    if case.program is not None or case.error:
        return "it is a program or raises an error"
    if op_def.is_stateful or effects_of(op_def):
        return f"{case.op} declares effects or state"
    definition = host.gradients.find(op_def)
    if definition is None or definition.function is None:
        return f"{case.op} has no gradient function"
    values = [np.asarray(value) for value in case_graph(case, host.ops).feeds.values()]
    checked = _checked_type(case, host)
    if not checked:
        return "no input and output are both float64, or both float32"
    smooth = [value for value in values if value.dtype.name == checked]
    if any(value.size > _MAX_ELEMENTS for value in values):
        return f"an input has more than {_MAX_ELEMENTS} elements"
    if not all(value.size and np.isfinite(value).all() for value in smooth):
        return "an input is empty or not finite"
    return ""


def _checked_type(case: Case, host: Host) -> str:
    """Return the widest type of `_ACCURACY` that an input and an output have, or ""."""
    made = case_graph(case, host.ops)
    inputs = {np.asarray(value).dtype.name for value in made.feeds.values()}
    return next((name for name in _ACCURACY if name in inputs and name in made.dtypes), "")


def gradient_problems(case: Case, host: Host) -> list[str]:
    """Compare the gradients of a case with slopes along a random direction of each input.

    Only inputs and outputs of the widest float type are varied. An input for which the gradient
    function returns None is not checked.

    Args:
        case: a case for which `why_not_checked` returns "".
        host: supplies the gradient function and the kernels.

    Returns:
        For each wrong gradient, a sentence with the input and both values.
    """
    return _Check(case, host).problems()


class _Check:
    """One case: the graph with its gradients, and a random weight for each output element."""

    def __init__(self, case: Case, host: Host) -> None:
        self._host = host
        self._type = _checked_type(case, host)
        self._rng = np.random.default_rng(3)
        graph_def, self._feeds = _smooth_inputs(case, host, self._type)
        self._graph = Graph.from_graph_def(graph_def, ops=host.ops)
        node = self._graph.node(NODE)
        self._ys = [y for y in self._graph.outputs_of(node) if y.dtype.name == self._type]
        self._argument_of = _argument_names(case, host)

    def problems(self) -> list[str]:
        xs = [self._graph.get_tensor_by_name(name) for name in self._feeds]
        with self._session() as session:
            outputs = session.run(self._ys, self._feeds)
        weights = [self._draw(np.asarray(value)) for value in outputs]
        with self._graph.as_default():
            found = gradients(self._ys, xs, weights, host=self._host)
            found = [g.to_tensor() if isinstance(g, IndexedSlices) else g for g in found]
        problems = []
        with self._session() as session:
            for x, gradient in zip(xs, found, strict=True):
                if gradient is not None:
                    value = session.run(gradient, self._feeds)
                    problems.append(self._problem(session, x.name, value, weights))
        return [problem for problem in problems if problem]

    def _problem(self, session: Session, name: str, gradient: Any, weights: list[Any]) -> str:
        feed = self._feeds[name]
        direction = self._draw(feed)
        actual = float((np.asarray(gradient, "float64") * direction).sum())
        accuracy = _ACCURACY[self._type]
        for step in accuracy.steps:
            ends, scale = [], 0.0
            for sign in (1, -1):
                moved = (feed + sign * step * direction).astype(feed.dtype)
                values = session.run(self._ys, {**self._feeds, name: moved})
                products = [
                    np.multiply(w, v, dtype="float64") for w, v in zip(weights, values, strict=True)
                ]
                ends.append(float(sum(product.sum() for product in products)))
                scale = max(scale, *(float(np.abs(p).sum()) for p in products))
            slope = (ends[0] - ends[1]) / (2 * step)
            tolerance = accuracy.rtol * abs(slope) + accuracy.atol * max(1.0, scale)
            if abs(actual - slope) <= tolerance:
                return ""
        return (
            f"by input {self._argument_of[name]!r} ({feed.dtype}, shape {list(feed.shape)}), along "
            f"a random direction, the gradient function gives {actual:.6g}, finite differences "
            f"give {slope:.6g}"
        )

    def _draw(self, like: Any) -> Any:
        return self._rng.standard_normal(like.shape).astype(like.dtype)

    def _session(self) -> Session:
        return Session(graph=self._graph, host=self._host, config={"graphmill": {"jit": "off"}})


def _smooth_inputs(case: Case, host: Host, checked: str) -> tuple[Any, dict[str, Any]]:
    """Return a case's graph and its inputs of one type; other inputs become constants."""
    made = case_graph(case, host.ops)
    graph_def = proto.GraphDef()
    graph_def.CopyFrom(made.graph_def)
    feeds = {}
    for node in graph_def.node:
        if node.op != "Placeholder":
            continue
        value = np.asarray(made.feeds[f"{node.name}:0"])
        if as_dtype(node.attr["dtype"].type).name == checked:
            feeds[f"{node.name}:0"] = value
        else:
            make_constant(node, value)
    return graph_def, feeds


def _argument_names(case: Case, host: Host) -> dict[str, str]:
    """Return the input of the op, as in its definition, that each placeholder feeds."""
    names = {}
    for position, argument in enumerate(host.ops.get(case.op).input_args):
        tree = case.inputs[position]
        if isinstance(tree, tuple):
            parts = range(len(tree))
            names.update({f"in{position}_{i}:0": f"{argument.name}[{i}]" for i in parts})
        else:
            names[f"in{position}:0"] = argument.name
    return names
