"""Datasets of the elements of a Python generator: `Dataset.from_generator`.

The state of a pass is the Python iterator itself, as a variant. So passes share nothing, and the
iterator is closed when its pass ends or is abandoned.
Semantics: tensorflow/python/data/ops/from_generator_op.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.data.components import Component
from graphmill.data.dataset import Dataset
from graphmill.data.element_spec import TensorSpec, flatten, output_attrs, spec_of_types
from graphmill.data.traced_function import trace
from graphmill.errors import InvalidArgumentError, InvalidValueError
from graphmill.graph.structures import flatten_with_paths
from graphmill.ops import dataset as ops
from graphmill.ops import functional
from graphmill.ops.inference.tensor_shape import TensorShape
from graphmill.ops.inputs.default_graph import get_default_graph
from graphmill.ops.inputs.values import to_array
from graphmill.plugin.local_functions import LocalFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from graphmill.graph.builder import Graph
    from graphmill.graph.tensor import Tensor


def generated(
    generator: Any, output_types: Any, output_shapes: Any, args: Any, output_signature: Any
) -> Dataset:
    """Return the elements of a Python generator; see `Dataset.from_generator`."""
    if not callable(generator):
        raise InvalidValueError(
            "from_generator: `generator` must be a function that returns an iterator, such as a "
            f"generator function, got {type(generator).__name__}"
        )
    spec = _element_spec(output_types, output_shapes, output_signature)
    arguments = [Component(part) for part in args or ()]
    passes = _Passes(generator, spec)
    name = getattr(generator, "__qualname__", type(generator).__name__)
    begin, advance = LocalFunction(passes.begin, name), LocalFunction(passes.advance, name)
    types = [part.dtype for part in flatten(spec)]

    def start(*tensors: Tensor) -> Tensor:
        return _called(begin, list(tensors), ["variant"])[0]

    def next_element(state: Tensor) -> tuple[Tensor, ...]:
        return tuple(_called(advance, [state], types))

    state = TensorSpec([], "variant")
    inputs = tuple(TensorSpec(part.shape, part.dtype) for part in arguments)
    init = trace(start, inputs, "from_generator")
    following = trace(next_element, state, "from_generator")
    end = trace(lambda _: 0, state, "from_generator")

    def build(graph: Graph, sources: list[Tensor]) -> Tensor:
        del sources
        return ops.generator_dataset(
            [part.add_to(graph) for part in arguments],
            [],
            [],
            init_func=init.add_to(graph),
            next_func=following.add_to(graph),
            finalize_func=end.add_to(graph),
            **output_attrs(spec),
        )

    return Dataset(build, spec, components=arguments)


def _element_spec(output_types: Any, output_shapes: Any, output_signature: Any) -> Any:
    """Return the structure of an element from the arguments that describe it."""
    if output_signature is None:
        if output_types is None:
            raise InvalidValueError(
                "from_generator needs `output_signature`, a structure of graphmill.data.TensorSpec,"
                " or `output_types`"
            )
        return spec_of_types(output_types, output_shapes)
    if output_types is not None or output_shapes is not None:
        raise InvalidValueError(
            "from_generator takes `output_signature`, or `output_types` and `output_shapes`, not "
            "both"
        )
    for path, part in flatten_with_paths(output_signature):
        if not isinstance(part, TensorSpec):
            raise InvalidValueError(
                f"from_generator: output_signature{path} must be a graphmill.data.TensorSpec, got "
                f"{type(part).__name__}"
            )
    return output_signature


def _called(function: LocalFunction, inputs: list[Tensor], types: list[Any]) -> list[Tensor]:
    """Add a node that calls a Python function to the default graph."""
    function.keep_for(get_default_graph())
    results: list[Tensor] = functional.py_func(inputs, token=function.token, Tout=types)
    return results


class _Passes:
    """The Python side: begins passes over a generator, and reads their elements."""

    def __init__(self, generator: Callable[..., Iterable[Any]], element_spec: Any) -> None:
        self._generator, self._spec = generator, element_spec

    def begin(self, *args: Any) -> Any:
        """Return the iterator of a new pass as a scalar array.

        Raises:
            TypeError: the generator returns no iterable.
        """
        state = np.empty((), object)
        state[()] = iter(self._generator(*args))
        return state

    def advance(self, state: Any) -> list[Any]:
        """Return the parts of the next element of a pass; StopIteration at its end.

        Raises:
            InvalidArgumentError: the element does not fit the spec.
        """
        iterator: Iterator[Any] = state.item()
        return [
            _converted(value, spec, path)
            for path, spec, value in _leaves(self._spec, next(iterator), "")
        ]


def _leaves(spec: Any, value: Any, path: str) -> list[tuple[str, TensorSpec, Any]]:
    """Return the path, spec and value of each part of an element, in the order of `flatten`.

    Raises:
        InvalidArgumentError: it has another structure.
    """
    if isinstance(spec, dict):
        if not isinstance(value, dict) or value.keys() != spec.keys():
            raise InvalidArgumentError(
                f"the generator yielded {_described(value)}{_at(path)}, expected a dict with the "
                f"keys {sorted(spec)}"
            )
        parts = [(f"[{key!r}]", spec[key], value[key]) for key in sorted(spec)]
    elif isinstance(spec, tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(spec):
            raise InvalidArgumentError(
                f"the generator yielded {_described(value)}{_at(path)}, expected a tuple of "
                f"{len(spec)} parts"
            )
        pairs = zip(spec, value, strict=True)
        parts = [(f"[{index}]", part, item) for index, (part, item) in enumerate(pairs)]
    else:
        return [(path, spec, value)]
    return [leaf for step, part, item in parts for leaf in _leaves(part, item, path + step)]


def _converted(value: Any, spec: TensorSpec, path: str) -> Any:
    try:
        array = to_array(value, spec.dtype)[0]
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"the generator yielded a value{_at(path)} that is not {spec.dtype.name}: "
            f"{error.message}"
        ) from error
    if not spec.shape.is_compatible_with(TensorShape(array.shape)):
        raise InvalidArgumentError(
            f"the generator yielded a value{_at(path)} of shape {list(array.shape)}, expected "
            f"{spec.shape}"
        )
    return array


def _described(value: Any) -> str:
    if isinstance(value, dict):
        return f"a dict with the keys {sorted(map(str, value))}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)} parts"
    return f"a value of type {type(value).__name__}"


def _at(path: str) -> str:
    return f" at {path}" if path else ""
