"""Functions with a state over the elements: reduce and scan; and the only element of a dataset.

Semantics: tensorflow/python/data/ops/{dataset_ops,scan_op}.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.data.components import Component, common_graph
from graphmill.data.dataset import Dataset, metadata_named
from graphmill.data.element_spec import (
    TensorSpec,
    as_datasets,
    check_same_structure,
    convert_leaves,
    flatten,
    most_general,
    output_attrs,
    pack,
)
from graphmill.data.traced_function import TracedFunction, trace
from graphmill.errors import InvalidValueError
from graphmill.graph.infer_graph import infer_graph
from graphmill.ops import dataset as ops
from graphmill.ops.inputs.default_graph import has_default_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.builder import Graph
    from graphmill.graph.tensor import Tensor

_STATE = "the initial state"


def reduced(
    source: Dataset, initial_state: Any, function: Callable[..., Any], name: str | None
) -> Any:
    """Return the last state of a function over all elements; see `Dataset.reduce`."""
    metadata = metadata_named(name)
    parts, spec = _initial(initial_state, "reduce")
    traced, spec = _traced(function, spec, source.element_spec, "reduce", lambda result: result)

    def add(graph: Graph, variant: Tensor) -> list[Tensor]:
        state = [part.add_to(graph) for part in parts]
        attrs = {"f": traced.add_to(graph), "metadata": metadata, **output_attrs(spec)}
        return ops.reduce_dataset(variant, state, [], **attrs)

    return _result(source, parts, spec, add)


def scanned(source: Dataset, initial_state: Any, function: Callable[..., Any]) -> Dataset:
    """Return the results of a function with a state; see `Dataset.scan`."""
    parts, spec = _initial(initial_state, "scan")
    traced, _ = _traced(function, spec, source.element_spec, "scan", _state_of_pair)
    element_spec = traced.output_spec[1]

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        state = [part.add_to(graph) for part in parts]
        attrs = {"f": traced.add_to(graph), **output_attrs(element_spec)}
        return ops.scan_dataset(inputs[0], state, [], preserve_cardinality=True, **attrs)

    return Dataset(build, element_spec, [source], parts)


def single_element(source: Dataset, name: str | None) -> Any:
    """Return the only element of a dataset; see `Dataset.get_single_element`."""
    attrs = {"metadata": metadata_named(name), **output_attrs(source.element_spec)}

    def add(graph: Graph, variant: Tensor) -> list[Tensor]:
        del graph
        return ops.dataset_to_single_element(variant, **attrs)

    return _result(source, [], source.element_spec, add)


def graph_of_result(sources: Sequence[Dataset | Component]) -> Graph | None:
    """Return the graph to which a result of datasets is added; None if it is computed at once."""
    graph = common_graph(sources)
    return infer_graph() if graph is None and has_default_graph() else graph


def _result(
    source: Dataset,
    parts: Sequence[Component],
    element_spec: Any,
    add: Callable[[Graph, Tensor], list[Tensor]],
) -> Any:
    """Return tensors of the graph in which a dataset is used, or else values."""
    graph = graph_of_result([source, *parts])
    if graph is None:
        from graphmill.data.dataset_value import evaluate

        return evaluate(source, element_spec, add)
    with graph.as_default():
        return as_datasets(element_spec, add(graph, source.add_to(graph)))


def _initial(initial_state: Any, what: str) -> tuple[list[Component], Any]:
    """Return the parts of an initial state, and its spec."""
    structure = convert_leaves(initial_state, Component, f"{what}: initial_state")
    parts: list[Component] = flatten(structure)
    if not parts:
        raise InvalidValueError(f"{what}: initial_state holds no tensor; pass one, such as a count")
    return parts, pack(structure, [TensorSpec(part.shape, part.dtype) for part in parts])


def _traced(
    function: Callable[..., Any],
    state_spec: Any,
    element_spec: Any,
    what: str,
    state_of: Callable[[Any], Any],
) -> tuple[TracedFunction, Any]:
    """Trace a function until the shapes of the state that it takes cover those it returns."""
    while True:
        traced = trace(function, (state_spec, element_spec), what)
        new_spec = state_of(traced.output_spec)
        check_same_structure(state_spec, new_spec, f"{what}: the new state", _STATE)
        wider = most_general(state_spec, new_spec)
        if flatten(wider) == flatten(state_spec):
            return traced, state_spec
        state_spec = wider


def _state_of_pair(output_spec: Any) -> Any:
    if not isinstance(output_spec, tuple) or len(output_spec) != 2:
        raise InvalidValueError(
            "scan: `scan_func` must return a pair of the new state and the output, not "
            f"{output_spec}"
        )
    return output_spec[0]
