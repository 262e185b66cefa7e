"""Serialize sparse tensors to strings or variants, or store them in a resource map.

Semantics: tensorflow/core/kernels/serialize_sparse_op.cc, deserialize_sparse_string_op.cc,
deserialize_sparse_variant_op.cc, sparse_tensors_map_ops.cc.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill.spi.process import fork_safe_lock
from graphmill.spi.protos import TensorProto, tensor_proto_to_numpy, write_varint
from graphmill_plugins.kernels._support import check_size, refuse_objects, shape_text
from graphmill_plugins.kernels._variant import TensorVariant
from graphmill_plugins.kernels.sparse._sparse import check_ascending, check_bounds, check_parts
from graphmill_plugins.kernels.state.value import resource_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value

Parts = tuple[Any, Any, Any]
"""The parts of a sparse tensor: indices, values, shape."""
_ROW_SIZE: Final = 1 << 9
"""Bytes of a row without elements: three arrays, and later three messages."""


def _encoder(out_type: np.dtype[Any]) -> Callable[[Value], Any]:
    if dtypes.as_dtype(out_type) is dtypes.variant:
        return TensorVariant
    return _message


def _message(tensor: Value) -> bytes:
    """Return a tensor as a message with all its content in `tensor_content`."""
    dtype = dtypes.as_dtype(tensor.dtype)
    message = TensorProto()
    message.dtype = dtype.enum  # type: ignore[assignment]
    for size in tensor.shape:
        message.tensor_shape.dim.add(size=size)
    message.tensor_content = (
        _string_content(tensor)
        if dtype is dtypes.string
        else np.ascontiguousarray(tensor).tobytes()
    )
    return message.SerializeToString()


def _string_content(tensor: Value) -> bytes:
    """Encode strings: all lengths as varints, then all bytes."""
    items = tensor.reshape(-1).tolist()
    return b"".join([write_varint(len(item)) for item in items] + items)


def _decoded(item: Any) -> Any:
    """Return the tensor in a variant or serialized message.

    Raises:
        InvalidArgumentError: the item holds no tensor.
    """
    if isinstance(item, TensorVariant):
        return item.tensor
    message = TensorProto()
    try:
        if not isinstance(item, bytes):
            raise ValueError(f"a variant that holds {item!r}")
        message.ParseFromString(item)
        return tensor_proto_to_numpy(message)
    except (ValueError, DecodeError) as error:
        raise InvalidArgumentError(f"Could not parse serialized_sparse: {error}") from error


def _rows(indices: Value, values: Value, shape: Value) -> list[Parts]:
    """Return the rows of a sparse tensor as sparse tensors whose rank is one lower.

    Raises:
        InvalidArgumentError: the rank is below 2, or indices are out of range, out of order or
            repeated.
    """
    sizes = check_parts(indices, values, shape)
    if len(sizes) < 2:
        raise InvalidArgumentError(
            f"Rank of input SparseTensor should be > 1, but saw rank: {len(sizes)}"
        )
    check_bounds(indices, sizes)
    check_ascending(indices)
    check_size((sizes[0],), "the list of rows", itemsize=_ROW_SIZE)
    bounds = np.searchsorted(indices[:, 0], np.arange(sizes[0] + 1)).tolist()
    return [
        (indices[start:stop, 1:], values[start:stop], shape[1:])
        for start, stop in cancellable(itertools.pairwise(bounds))
    ]


@kernel("SerializeSparse", host=True)
def serialize_sparse(
    indices: Value, values: Value, shape: Value, T: np.dtype[Any], out_type: np.dtype[Any]
) -> Value:
    """Return the three parts of a sparse tensor as messages, or as variants."""
    refuse_objects(dtypes.as_dtype(T), "serialized")
    check_parts(indices, values, shape)
    out = np.empty(3, out_type)
    out[:] = list(map(_encoder(out_type), (indices, values, shape)))
    return out


@kernel("SerializeManySparse", host=True)
def serialize_many_sparse(
    indices: Value, values: Value, shape: Value, T: np.dtype[Any], out_type: np.dtype[Any]
) -> Value:
    """Serialize each row of a sparse tensor as a sparse tensor whose rank is one lower."""
    refuse_objects(dtypes.as_dtype(T), "serialized")
    rows = _rows(indices, values, shape)
    encode = _encoder(out_type)
    out = np.empty((len(rows), 3), out_type)
    for row, parts in enumerate(cancellable(rows)):
        out[row] = list(map(encode, parts))
    return out


def _check_decoded(parts: Parts, dtype: np.dtype[Any], index: int) -> None:
    indices, values, shape = parts
    if indices.dtype != np.int64 or shape.dtype != np.int64:
        raise InvalidArgumentError(f"indices and shape of element {index} must be int64")
    if dtypes.as_dtype(values.dtype) is not dtypes.as_dtype(dtype):
        raise InvalidArgumentError(
            f"Requested SparseTensor of type {dtypes.as_dtype(dtype).name} but "
            f"SparseTensor[{index}].values.dtype() == {dtypes.as_dtype(values.dtype).name}"
        )
    check_parts(indices, values, shape, f"element {index}")


def _stacked(elements: Sequence[Parts], outer: tuple[int, ...], dtype: np.dtype[Any]) -> Parts:
    """Stack sparse tensors along new leading axes `outer`; other sizes are the maxima."""
    for index, parts in enumerate(cancellable(elements)):
        _check_decoded(parts, dtype, index)
    if not elements:
        raise InvalidArgumentError(
            f"Input should have non-zero elements but saw shape {shape_text((*outer, 3))}"
        )
    rank = len(elements[0][2])
    for index, (_, _, shape) in enumerate(elements):
        if len(shape) != rank:
            raise InvalidArgumentError(
                f"Inconsistent rank across SparseTensors: rank prior to SparseTensor[{index}] "
                f"was: {rank} but rank of SparseTensor[{index}] is: {len(shape)}"
            )
    indices = [
        np.concatenate([np.tile(np.array(outer_index, np.int64), (len(part), 1)), part], axis=1)
        for outer_index, (part, _, _) in cancellable(zip(np.ndindex(outer), elements, strict=True))
    ]
    sizes = np.max([shape for _, _, shape in elements], axis=0)
    return (
        np.concatenate(indices),
        np.concatenate([values for _, values, _ in elements]),
        np.concatenate([np.array(outer, np.int64), sizes]),
    )


@kernel("DeserializeSparse", host=True)
def deserialize_sparse(serialized_sparse: Value, dtype: np.dtype[Any]) -> Parts:
    """Deserialize sparse tensors; a batch is stacked along new leading axes."""
    if np.ndim(serialized_sparse) < 1 or serialized_sparse.shape[-1] != 3:
        raise InvalidArgumentError(
            "Serialized sparse should have non-zero rank and 3 as the last dimension, got shape "
            f"{shape_text(np.shape(serialized_sparse))}"
        )
    outer = serialized_sparse.shape[:-1]
    return _stacked(_triples(serialized_sparse), outer, dtype)


def _triples(serialized: Value) -> list[Parts]:
    return [tuple(map(_decoded, row)) for row in cancellable(serialized.reshape(-1, 3).tolist())]


@kernel("DeserializeManySparse", host=True)
def deserialize_many_sparse(serialized_sparse: Value, dtype: np.dtype[Any]) -> Parts:
    """Deserialize a batch of sparse tensors as one with a new first axis."""
    if serialized_sparse.ndim != 2 or serialized_sparse.shape[1] != 3:
        raise InvalidArgumentError(
            "Serialized sparse should be a matrix with 3 columns, got shape "
            f"{shape_text(serialized_sparse.shape)}"
        )
    return _stacked(_triples(serialized_sparse), (len(serialized_sparse),), dtype)


class SparseTensorsMap:
    """Store sparse tensors by id until they are taken.

    Threads: `_lock` guards the content.
    """

    def __init__(self) -> None:
        self._content: dict[int, Parts] = {}
        self._ids = itertools.count()
        self._lock = fork_safe_lock()

    def add(self, parts: Parts) -> int:
        """Store a sparse tensor and return its id."""
        with self._lock:
            new_id = next(self._ids)
            self._content[new_id] = parts
        return new_id

    def take(self, numbers: list[int]) -> list[Parts]:
        """Remove and return the sparse tensors with the given ids.

        Raises:
            InvalidArgumentError: an id is unknown.
        """
        with self._lock:
            for key in numbers:
                if key not in self._content:
                    raise InvalidArgumentError(
                        f"Unable to find SparseTensor: {key} in map of {len(self._content)}"
                    )
            return [self._content.pop(key) for key in numbers]


class _MapKernel:
    """Find a node's map by `shared_name`, else by the node's name."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._container, self._name = resource_key(construction, is_shared_by_node_name=True)
        self._dtype = construction.attr("dtype" if construction.op.startswith("Take") else "T")

    def _map(self, ctx: OpKernelContext) -> SparseTensorsMap:
        tensors_map: SparseTensorsMap = ctx.resources.lookup_or_create(
            self._container, self._name, SparseTensorsMap, SparseTensorsMap
        )
        return tensors_map


@kernel("AddSparseToTensorsMap", stateful=True, host=True, effects=("state",))
class AddSparseToTensorsMap(_MapKernel):
    """Store a sparse tensor and return its id."""

    def __call__(self, ctx: OpKernelContext, indices: Value, values: Value, shape: Value) -> Value:
        """Return the id."""
        check_parts(indices, values, shape)
        return np.int64(self._map(ctx).add((indices, values, shape)))


@kernel("AddManySparseToTensorsMap", stateful=True, host=True, effects=("state",))
class AddManySparseToTensorsMap(_MapKernel):
    """Store each row of a sparse tensor and return the ids."""

    def __call__(self, ctx: OpKernelContext, indices: Value, values: Value, shape: Value) -> Value:
        """Return the ids."""
        stored, rows = self._map(ctx), _rows(indices, values, shape)
        ids = np.empty(len(rows), np.int64)
        # As in TensorFlow, rows without elements get the last ids.
        for row in cancellable(sorted(range(len(rows)), key=lambda row: not len(rows[row][1]))):
            ids[row] = stored.add(rows[row])
        return ids


@kernel("TakeManySparseFromTensorsMap", stateful=True, host=True, effects=("state",))
class TakeManySparseFromTensorsMap(_MapKernel):
    """Take sparse tensors from a map and stack them along a new first axis."""

    def __call__(self, ctx: OpKernelContext, handles: Value) -> Parts:
        """Return the parts of the sparse tensor."""
        if handles.ndim != 1:
            raise InvalidArgumentError(
                f"sparse_handles should be a vector but received shape {shape_text(handles.shape)}"
            )
        return _stacked(self._map(ctx).take(handles.tolist()), (len(handles),), self._dtype)
