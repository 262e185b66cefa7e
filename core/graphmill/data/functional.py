"""Steps of a pipeline that call a function for each element: map, filter, flat_map, interleave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.data.components import Component, scalar
from graphmill.data.dataset import AUTOTUNE, Dataset
from graphmill.data.element_spec import DatasetSpec, TensorSpec, output_attrs
from graphmill.data.steps import determinism
from graphmill.data.traced_function import TracedFunction, trace
from graphmill.errors import InvalidArgumentError
from graphmill.ops import dataset as ops

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.builder import Graph
    from graphmill.graph.tensor import Tensor


def mapped(
    source: Dataset,
    function: Callable[..., Any],
    num_parallel_calls: int | None,
    deterministic: bool | None,
) -> Dataset:
    """Return the results of a function; see `Dataset.map`."""
    traced = trace(function, source.element_spec, "map")
    if num_parallel_calls is None:
        return _calling(
            ops.map_dataset,
            source,
            traced,
            traced.output_spec,
            attr="f",
            preserve_cardinality=True,
        )
    return _calling(
        ops.parallel_map_dataset_v2,
        source,
        traced,
        traced.output_spec,
        [_calls(num_parallel_calls, "map")],
        attr="f",
        deterministic=determinism(deterministic),
        preserve_cardinality=True,
    )


def filtered(source: Dataset, predicate: Callable[..., Any]) -> Dataset:
    """Return the elements for which a function is true; see `Dataset.filter`."""
    traced = _predicate(source, predicate, "filter")
    return _calling(ops.filter_dataset, source, traced, source.element_spec, attr="predicate")


def taken_while(source: Dataset, predicate: Callable[..., Any]) -> Dataset:
    """Return the elements while a function is true; see `Dataset.take_while`."""
    traced = _predicate(source, predicate, "take_while")
    return _calling(ops.take_while_dataset, source, traced, source.element_spec, attr="predicate")


def flat_mapped(source: Dataset, function: Callable[..., Any]) -> Dataset:
    """Return the elements of the datasets that a function returns; see `Dataset.flat_map`."""
    traced, spec = _datasets(source, function, "flat_map")
    return _calling(ops.flat_map_dataset, source, traced, spec, attr="f")


def interleaved(
    source: Dataset,
    function: Callable[..., Any],
    cycle_length: int | None,
    block_length: int | None,
    num_parallel_calls: int | None,
    deterministic: bool | None,
) -> Dataset:
    """Interleave the elements of a function's datasets; see `Dataset.interleave`."""
    traced, spec = _datasets(source, function, "interleave")
    cycle = scalar(
        AUTOTUNE if cycle_length is None else cycle_length, "int64", "interleave: cycle_length"
    )
    block = scalar(1 if block_length is None else block_length, "int64", "interleave: block_length")
    for part, name, extra in ((cycle, "cycle_length", AUTOTUNE), (block, "block_length", 1)):
        if part.value is not None and part.value < 1 and part.value != extra:
            raise InvalidArgumentError(f"interleave: {name} must be at least 1, got {part.value}")
    if num_parallel_calls is None:
        return _calling(ops.interleave_dataset, source, traced, spec, [cycle, block], attr="f")
    ahead = scalar(AUTOTUNE, "int64", "interleave")
    return _calling(
        ops.parallel_interleave_dataset_v4,
        source,
        traced,
        spec,
        [cycle, block, ahead, ahead, _calls(num_parallel_calls, "interleave")],
        attr="f",
        deterministic=determinism(deterministic),
    )


def _calling(
    op: Callable[..., Tensor],
    source: Dataset,
    traced: TracedFunction,
    element_spec: Any,
    components: Sequence[Component] = (),
    *,
    attr: str,
    **attrs: Any,
) -> Dataset:
    """Return the dataset of an op that calls a function, which its attr `attr` names."""

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        arguments = [part.add_to(graph) for part in components]
        named = {attr: traced.add_to(graph), **attrs}
        return op(*inputs, [], *arguments, **named, **output_attrs(element_spec))

    return Dataset(build, element_spec, [source], components)


def _predicate(source: Dataset, predicate: Callable[..., Any], what: str) -> TracedFunction:
    traced = trace(predicate, source.element_spec, what)
    spec = traced.output_spec
    if not isinstance(spec, TensorSpec) or not spec.is_compatible_with(TensorSpec([], "bool")):
        raise InvalidArgumentError(f"{what}: `predicate` must return a scalar bool, not {spec}")
    return traced


def _datasets(
    source: Dataset, function: Callable[..., Any], what: str
) -> tuple[TracedFunction, Any]:
    traced = trace(function, source.element_spec, what)
    if not isinstance(traced.output_spec, DatasetSpec):
        raise InvalidArgumentError(
            f"{what}: `map_func` must return a Dataset, not {traced.output_spec}"
        )
    return traced, traced.output_spec.element_spec


def _calls(count: int, what: str) -> Component:
    calls = scalar(count, "int64", f"{what}: num_parallel_calls")
    if calls.value is not None and calls.value < 1 and calls.value != AUTOTUNE:
        raise InvalidArgumentError(
            f"{what}: num_parallel_calls must be at least 1, AUTOTUNE or None, got {count}"
        )
    return calls
