"""Signatures of a SavedModel as functions from named arrays to named arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.ops.tensor_proto import tensor_proto_to_numpy
from graphmill.saved.internal_signatures import is_internal
from graphmill.session.steps.feeds import feed_converter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Protocol

    from graphmill.dtypes import DType
    from graphmill.proto.meta_graph_pb2 import SignatureDef, TensorInfo
    from graphmill.proto.tensor_pb2 import TensorProto
    from graphmill.typing import Shape, Value

    class CallableMaker(Protocol):
        """A session, in this process or in another one."""

        def make_callable(
            self, fetches: Any, feed_list: Sequence[Any] | None = None
        ) -> Callable[..., Any]:
            """Return a function that runs one step."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name, element type and static shape of a signature's tensor in the graph."""

    tensor: str
    dtype: DType
    shape: Shape


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a signature.

    Attributes:
        name: its name in the signature.
        parts: its tensor; several for a sparse tensor (indices, values, dense shape) or another
            composite tensor (its components).
        is_composite: whether values are tuples with an array for each part.
    """

    name: str
    parts: tuple[TensorSpec, ...]
    is_composite: bool


class Signature:
    """A signature to call like a function: `signature(image=pixels)["probabilities"]`.

    A value may lack the last dimension of an input if that is 1: texts for `[?, 1]` are a list.

    Thread-safe. The first call creates a callable of the session, which later calls reuse.

    Attributes:
        name: the key in the model, for example "serving_default".
        method_name: the method name in the model's `SignatureDef`.
        inputs: the inputs by name.
        outputs: the outputs by name.
        defaults: the values of inputs that a caller may leave out.
    """

    def __init__(self, name: str, definition: SignatureDef, session: CallableMaker) -> None:
        self.name = name
        self.method_name: str = definition.method_name
        self.inputs = {key: _port(key, info) for key, info in sorted(definition.inputs.items())}
        self.outputs = {key: _port(key, info) for key, info in sorted(definition.outputs.items())}
        self.defaults = {key: _default(name, key, v) for key, v in definition.defaults.items()}
        self._session = session
        self._call: Callable[..., Any] | None = None
        self._converters = {
            key: [_converter(f"{key} ({p.tensor})", p.dtype, p.shape) for p in port.parts]
            for key, port in self.inputs.items()
        }

    def __call__(self, inputs: Any = None, /, **named: Any) -> dict[str, Value]:
        """Return the outputs by name.

        Args:
            inputs: values by input name, for names that are not Python identifiers; or the value of
                the only input that is neither in `named` nor has a default.
            named: values by input name.

        Raises:
            InvalidArgumentError: an input is missing or unknown, or a value has the wrong type or
                shape.
            OpError: the error of the first failing node.
        """
        if inputs is not None and not isinstance(inputs, Mapping):
            inputs = {self._only_input(named): inputs}
        values = {**self.defaults, **(inputs or {}), **named}
        if values.keys() != self.inputs.keys():
            raise self._wrong_inputs(values)
        feeds = [
            convert(part)
            for key, port in self.inputs.items()
            for convert, part in zip(
                self._converters[key], self._parts(port, values[key]), strict=True
            )
        ]
        call = self._call
        if call is None:
            call = self._call = self._make_call()
        return self._name_outputs(call(*feeds))

    def __repr__(self) -> str:
        return f"Signature({self.name}: {', '.join(self.inputs)} -> {', '.join(self.outputs)})"

    def _only_input(self, named: Mapping[str, Any]) -> str:
        """Return the name of the input that a value without a name is for."""
        required = self.inputs.keys() - self.defaults.keys() - named.keys()
        if len(required) != 1:
            expected = ", ".join(map(_describe, self.inputs.values())) or "no inputs"
            raise errors.InvalidArgumentError(
                f"the signature {self.name!r} has {len(required)} required inputs, so a value "
                f"needs a name: pass its inputs by name. It takes {expected}"
            )
        return required.pop()

    def _make_call(self) -> Callable[..., Any]:
        feeds = [part.tensor for port in self.inputs.values() for part in port.parts]
        fetches = [part.tensor for port in self.outputs.values() for part in port.parts]
        return self._session.make_callable(fetches, feeds)

    def _parts(self, port: Port, value: Any) -> list[Any]:
        if not port.is_composite:
            return [value]
        parts = list(value) if isinstance(value, tuple | list) else []
        if len(parts) != len(port.parts):
            names = ", ".join(part.tensor for part in port.parts)
            raise errors.InvalidArgumentError(
                f"input {port.name!r} of signature {self.name!r} is a composite tensor; pass a "
                f"tuple of {len(port.parts)} arrays, for {names}"
            )
        return parts

    def _name_outputs(self, values: list[Value]) -> dict[str, Value]:
        results: dict[str, Value] = {}
        position = 0
        for key, port in self.outputs.items():
            stop = position + len(port.parts)
            parts = tuple(values[position:stop])
            results[key] = parts if port.is_composite else parts[0]
            position = stop
        return results

    def _wrong_inputs(self, values: Mapping[str, Any]) -> errors.InvalidArgumentError:
        unknown = sorted(values.keys() - self.inputs.keys())
        missing = sorted(self.inputs.keys() - values.keys())
        faults = [f"unknown: {name!r}{errors.suggest(name, self.inputs)}" for name in unknown]
        faults += [f"missing: {name!r}" for name in missing]
        expected = ", ".join(map(_describe, self.inputs.values())) or "no inputs"
        return errors.InvalidArgumentError(
            f"wrong inputs for signature {self.name!r}: {'; '.join(faults)}. It takes {expected}"
        )


class Signatures(Mapping[str, Signature]):
    """The signatures of a model by name; an unknown name raises NotFoundError with suggestions."""

    def __init__(self, definitions: Mapping[str, SignatureDef], session: CallableMaker) -> None:
        self._signatures = {
            name: Signature(name, definition, session)
            for name, definition in sorted(definitions.items())
            if not is_internal(name)
        }

    def __getitem__(self, name: str) -> Signature:
        signature = self._signatures.get(name)
        if signature is None:
            available = ", ".join(map(repr, self._signatures)) or "none"
            raise errors.NotFoundError(
                f"the model has no signature {name!r}{errors.suggest(name, self._signatures)}; "
                f"available: {available}"
            )
        return signature

    def get(self, name: str, default: Any = None) -> Any:
        """Return the signature `name`, or `default` if there is none."""
        return self._signatures.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._signatures

    def __iter__(self) -> Iterator[str]:
        return iter(self._signatures)

    def __len__(self) -> int:
        return len(self._signatures)

    def __repr__(self) -> str:
        return f"Signatures({', '.join(self._signatures)})"


def _converter(name: str, dtype: DType, shape: Shape) -> Callable[[Any], Value]:
    """Return the function that converts the value of an input.

    For an input whose last dimension is 1, such as the texts of a Keras model, it also accepts
    values without this dimension.
    """
    convert = feed_converter(name, dtype, shape)
    if shape is None or len(shape) < 2 or shape[-1] != 1 or not dtype.is_numpy_compatible:
        return convert

    def convert_column(value: Any) -> Value:
        try:
            return convert(value)
        except errors.InvalidArgumentError:
            array = _without_last_dimension(value, dtype, shape)
            if array is None:
                raise
        return convert(array[..., np.newaxis])

    return convert_column


def _without_last_dimension(
    value: Any, dtype: DType, shape: tuple[int, ...]
) -> np.ndarray[Any, Any] | None:
    """Return a value as an array if only its last dimension is missing, else None."""
    try:
        array = np.asarray(value, object if dtype is dtypes.string else None)
    except (ValueError, TypeError):
        return None
    return array if array.ndim == len(shape) - 1 else None


def _port(name: str, info: TensorInfo) -> Port:
    kind = info.WhichOneof("encoding")
    parts: tuple[TensorSpec, ...]
    if kind == "coo_sparse":
        sparse = info.coo_sparse
        parts = (
            TensorSpec(sparse.indices_tensor_name, dtypes.int64, (-1, -1)),
            TensorSpec(sparse.values_tensor_name, _dtype(info), (-1,)),
            TensorSpec(sparse.dense_shape_tensor_name, dtypes.int64, (-1,)),
        )
        return Port(name, parts, is_composite=True)
    if kind == "composite_tensor":
        components = [_port(name, part) for part in info.composite_tensor.components]
        parts = tuple(spec for component in components for spec in component.parts)
        return Port(name, parts, is_composite=True)
    return Port(name, (TensorSpec(info.name, _dtype(info), _shape(info)),), is_composite=False)


def _dtype(info: TensorInfo) -> DType:
    return dtypes.as_dtype(int(info.dtype)).base_dtype


def _shape(info: TensorInfo) -> Shape:
    if not info.HasField("tensor_shape") or info.tensor_shape.unknown_rank:
        return None
    return tuple(dim.size for dim in info.tensor_shape.dim)


def _default(signature: str, key: str, value: TensorProto) -> Any:
    try:
        return tensor_proto_to_numpy(value)
    except errors.OpError as error:
        raise type(error)(
            f"invalid default for input {key!r} of signature {signature!r}: {error.message}"
        ) from error


def _describe(port: Port) -> str:
    parts = [f"{part.dtype.name}{_shape_text(part.shape)}" for part in port.parts]
    return f"{port.name}: " + (f"({', '.join(parts)})" if port.is_composite else parts[0])


def _shape_text(shape: Shape) -> str:
    if shape is None:
        return ""
    return "[" + ", ".join("?" if size < 0 else str(size) for size in shape) + "]"


def tensor_names(info: TensorInfo) -> Iterator[str]:
    """Yield the names of the tensors that an input or output of a signature consists of."""
    kind = info.WhichOneof("encoding")
    if kind == "coo_sparse":
        sparse = info.coo_sparse
        yield from (
            sparse.values_tensor_name,
            sparse.indices_tensor_name,
            sparse.dense_shape_tensor_name,
        )
    elif kind == "composite_tensor":
        for component in info.composite_tensor.components:
            yield from tensor_names(component)
    else:
        yield info.name
