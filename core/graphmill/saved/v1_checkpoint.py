"""Read and write checkpoints of format V1: each file is a table with values in messages.

The entry with the empty key describes all tensors and their slices; every slice has an entry of
its own. A pattern refers to a checkpoint with several files.

Semantics: tensorflow/core/util/tensor_slice_reader.cc, tensor_slice_writer.cc.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from google.protobuf.message import DecodeError

from graphmill import dtypes, errors, files, proto
from graphmill.access.broker import UNRESTRICTED
from graphmill.ops.tensor_proto import tensor_proto_to_numpy
from graphmill.saved.bundle_format import count_elements, key_of
from graphmill.saved.bundle_reader import check_version
from graphmill.saved.slice_copy import assemble
from graphmill.saved.table import TableReader, TableWriter
from graphmill.saved.tensor_slice import TensorSlice, slice_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.access.broker import Broker
    from graphmill.proto.saved_tensor_slice_pb2 import SavedSlice, SavedTensorSlices

VERSION = 1
_META_KEY = b""
_MAX_SLICE_BYTES = 1 << 31

# Fields of a message for the values of each type; the format does not support other types.
_FIELDS: Final[dict[dtypes.DType, str]] = {
    dtypes.float32: "float_val",
    dtypes.float64: "double_val",
    dtypes.float16: "half_val",
    dtypes.complex64: "scomplex_val",
    dtypes.complex128: "dcomplex_val",
    dtypes.int64: "int64_val",
    dtypes.bool: "bool_val",
    dtypes.string: "string_val",
    **dict.fromkeys((dtypes.int32, dtypes.int16, dtypes.int8, dtypes.uint8), "int_val"),
    **dict.fromkeys((dtypes.uint16, *dtypes.QUANTIZED), "int_val"),
}


@dataclass(slots=True)
class _Tensor:
    """The description of one tensor, collected from all files."""

    name: str
    dtype: dtypes.DType
    shape: tuple[int, ...]
    slices: dict[TensorSlice, TableReader] = field(default_factory=dict)


class V1Reader:
    """A checkpoint of format V1, opened for reading.

    Args:
        pattern: path of the file, or a pattern that matches all its files.
        preferred_shard: index of the file to search first (in sorted order); the others are only
            opened if it lacks a tensor. -1 opens all files at once.
        check: whether to verify checksums (needs google-crc32c).
        broker: opens the files.

    Raises:
        NotFoundError: no file matches.
        DataLossError: a file is not a table, or damaged.
    """

    def __init__(
        self,
        pattern: str,
        preferred_shard: int = -1,
        *,
        check: bool = True,
        broker: Broker = UNRESTRICTED,
    ) -> None:
        self.pattern, self._broker = pattern, broker
        self._check = check
        self._tensors: dict[str, _Tensor] = {}
        self._readers: list[files.Reader] = []
        self._unread = [pattern] if broker.exists(pattern) else broker.matching(pattern)
        if not self._unread:
            raise errors.NotFoundError(
                "Unsuccessful TensorSliceReader constructor: Failed to find any matching files "
                f"for {pattern}"
            )
        try:
            if 0 <= preferred_shard < len(self._unread):
                self._load(self._unread.pop(preferred_shard))
            else:
                self._load_all()
        except errors.OpError:
            self.close()
            raise

    def names(self) -> list[str]:
        """Return the names of all tensors, sorted."""
        self._load_all()
        return sorted(self._tensors)

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def dtype(self, name: str) -> dtypes.DType:
        """Return the element type of tensor `name`; NotFoundError if there is none."""
        return self._tensor(name).dtype

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of tensor `name`; NotFoundError if there is none."""
        return self._tensor(name).shape

    def read_tensor(self, name: str) -> np.ndarray[Any, Any]:
        """Return the values of tensor `name`, assembled if they are stored in slices.

        Raises:
            NotFoundError: there is no such tensor.
            InvalidArgumentError: the stored slices do not cover it.
            DataLossError: the values are damaged.
        """
        return self.read_slice(name, TensorSlice.full(len(self._tensor(name).shape)))

    def read_slice(self, name: str, wanted: TensorSlice) -> np.ndarray[Any, Any]:
        """Return one slice of tensor `name`; raises as `read_tensor`."""
        tensor = self._tensor(name)

        def read(piece: TensorSlice) -> np.ndarray[Any, Any]:
            return self._read(tensor, piece)

        dtype = tensor.dtype.as_numpy_dtype
        return assemble(name, tensor.shape, dtype, wanted, list(tensor.slices), read)

    def close(self) -> None:
        """Release the files; safe to call twice."""
        for reader in self._readers:
            reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _tensor(self, name: str) -> _Tensor:
        tensor = self._find(name)
        if tensor is None:
            raise errors.NotFoundError(
                f'Tensor name "{name}" not found in checkpoint files {self.pattern}'
                f"{errors.suggest(name, self._tensors)}"
            )
        return tensor

    def _find(self, name: str) -> _Tensor | None:
        if name not in self._tensors:
            self._load_all()
        return self._tensors.get(name)

    def _load_all(self) -> None:
        while self._unread:
            self._load(self._unread.pop(0))

    def _load(self, path: str) -> None:
        reader = self._broker.open_reader(path)
        self._readers.append(reader)
        try:
            table = TableReader(reader, check=self._check)
        except errors.DataLossError as error:
            raise errors.DataLossError(
                f"Unable to open table file {path}: {error.message}; perhaps it is in another "
                "format and needs another restore op"
            ) from error
        content = table.get(_META_KEY)
        if content is None:
            raise errors.DataLossError(f"{path} is damaged: it has no list of its tensors")
        meta = _parse(content, path).meta
        check_version(meta.versions, VERSION, path)
        for tensor in meta.tensor:
            self._register(tensor, table, path)

    def _register(self, meta: Any, table: TableReader, path: str) -> None:
        """Add a file's description of a tensor."""
        shape = tuple(dim.size for dim in meta.shape.dim)
        if min(shape, default=0) < 0:
            raise errors.DataLossError(
                f"{path} is damaged at tensor {meta.name}: its shape {shape} has unknown dimensions"
            )
        try:
            dtype = dtypes.as_dtype(meta.type)
            slices = [TensorSlice.from_proto(piece) for piece in meta.slice]
            for piece in slices:
                piece.bounds(shape)
        except (errors.InvalidArgumentError, errors.InternalError) as error:
            raise errors.DataLossError(
                f"{path} is damaged at tensor {meta.name}: {error.message}"
            ) from error
        existing = self._tensors.setdefault(meta.name, _Tensor(meta.name, dtype, shape))
        if (existing.dtype, existing.shape) != (dtype, shape):
            raise errors.DataLossError(
                f"{path} has tensor {meta.name} as {dtype.name} {shape}, but another file has it "
                f"as {existing.dtype.name} {existing.shape}"
            )
        existing.slices.update(dict.fromkeys(slices, table))

    def _read(self, tensor: _Tensor, piece: TensorSlice) -> np.ndarray[Any, Any]:
        content = tensor.slices[piece].get(slice_key(key_of(tensor.name), piece))
        if content is None:
            raise errors.DataLossError(
                f"{self.pattern} has no values of slice {piece} of tensor {tensor.name}"
            )
        if tensor.dtype not in _FIELDS:
            raise errors.DataLossError(
                f"{self.pattern} is damaged: the format has no {tensor.dtype.name}, the type of "
                f"tensor {tensor.name}"
            )
        message = _parse(content, self.pattern).data.data
        shape = piece.shape(tensor.shape)
        stored = sum(len(values) for spec, values in message.ListFields() if spec.is_repeated)
        expected = count_elements(shape) * (2 if tensor.dtype.is_complex else 1)
        if stored != expected:
            raise errors.DataLossError(
                f"{self.pattern} is damaged: slice {piece} of tensor {tensor.name} "
                f"({tensor.dtype.name}) has {stored} values, expected {expected}"
            )
        message.dtype = tensor.dtype.enum  # type: ignore[assignment]
        message.ClearField("tensor_shape")
        for size in shape:
            message.tensor_shape.dim.add(size=size)
        return tensor_proto_to_numpy(message)


class V1Writer:
    """Write a checkpoint of format V1, which is held in memory until `finish`."""

    def __init__(self, path: str, *, broker: Broker = UNRESTRICTED) -> None:
        self.path, self._broker = path, broker
        self._meta: dict[str, Any] = {}
        self._slices: dict[bytes, bytes] = {}
        self._description = proto.SavedTensorSlices()
        self._description.meta.versions.producer = VERSION

    def add(
        self,
        name: str,
        values: np.ndarray[Any, Any],
        dtype: dtypes.DType,
        full_shape: tuple[int, ...] | None = None,
        tensor_slice: TensorSlice | None = None,
    ) -> None:
        """Add tensor `name`, or one slice of it.

        Raises:
            UnimplementedError: the format does not support the type.
            InvalidArgumentError: the slice does not match the values, or is too large.
            InternalError: a previous slice of the tensor had another full shape or type, or the
                slice was already added.
        """
        if dtype not in _FIELDS:
            raise errors.UnimplementedError(f"Saving data type {dtype.name} not yet supported")
        whole: tuple[int, ...] = values.shape if full_shape is None else full_shape
        piece = TensorSlice.full(len(whole)) if tensor_slice is None else tensor_slice
        if piece.shape(whole) != values.shape:
            raise errors.InvalidArgumentError(
                f"slice {piece} of tensor {name} has shape {piece.shape(whole)}, but its values "
                f"have shape {values.shape}"
            )
        if values.nbytes >= _MAX_SLICE_BYTES:
            raise errors.InvalidArgumentError(
                f"Tensor slice is too large to serialize ({values.nbytes} bytes); save it with "
                "SaveV2"
            )
        key = slice_key(key_of(name), piece)
        if key in self._slices:
            raise errors.InternalError(f"slice {piece} of tensor {name} is added twice")
        self._describe(name, whole, dtype).slice.append(piece.to_proto())
        self._slices[key] = _slice_message(name, piece, values, dtype).SerializeToString()

    def finish(self) -> None:
        """Write the file atomically."""
        with self._broker.open_writer(self.path) as writer:
            table = TableWriter(writer.write)
            table.add(_META_KEY, self._description.SerializeToString())
            for key in sorted(self._slices):
                table.add(key, self._slices[key])
            table.finish()

    def _describe(self, name: str, shape: tuple[int, ...], dtype: dtypes.DType) -> Any:
        meta: Any = self._meta.get(name)
        if meta is None:
            meta = self._meta[name] = self._description.meta.tensor.add(name=name)
            meta.type = dtype.enum
            meta.shape.SetInParent()
            for size in shape:
                meta.shape.dim.add(size=size)
        elif meta.type != dtype.enum or tuple(dim.size for dim in meta.shape.dim) != shape:
            raise errors.InternalError(
                f"Mismatching shapes or types: a slice of tensor {name} is {dtype.name} {shape}, "
                "but a previous one had another type or full shape"
            )
        return meta


def is_v1_checkpoint(path: str) -> bool:
    """Return whether the file (or the first file that matches the pattern) has format V1."""
    try:
        with V1Reader(path, preferred_shard=0, check=False):
            return True
    except errors.OpError:
        return False


def _parse(content: bytes, path: str) -> SavedTensorSlices:
    try:
        return proto.SavedTensorSlices.FromString(content)
    except DecodeError as error:
        raise errors.DataLossError(f"{path} is damaged: {error}") from error


def _slice_message(
    name: str, piece: TensorSlice, values: np.ndarray[Any, Any], dtype: dtypes.DType
) -> SavedTensorSlices:
    """Return the entry of a slice, in which repeated values are not compressed."""
    message = proto.SavedTensorSlices()
    data: SavedSlice = message.data
    data.name = name
    data.slice.CopyFrom(piece.to_proto())
    data.data.SetInParent()
    getattr(data.data, _FIELDS[dtype]).extend(_plain_values(values, dtype))
    return message


def _plain_values(values: np.ndarray[Any, Any], dtype: dtypes.DType) -> Iterable[Any]:
    flat = np.ascontiguousarray(values).reshape(-1)
    if dtype is dtypes.string:
        return [v.encode() if isinstance(v, str) else bytes(v) for v in flat.tolist()]
    if dtype is dtypes.float16:
        flat = flat.view(np.uint16)
    elif dtype.is_complex:
        flat = flat.view(f"f{dtype.size // 2}")
    plain: list[Any] = flat.tolist()
    return plain
