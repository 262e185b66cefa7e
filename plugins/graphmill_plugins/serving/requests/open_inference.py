"""The Open Inference Protocol's types, and code shared by its HTTP and gRPC variants.

Semantics: the V2 inference protocol of KServe, docs/predict-api/v2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, UnimplementedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.dtypes import DType
    from graphmill.spi.models import TensorSpec
    from graphmill_plugins.serving.models.model_manager import ModelManager
    from graphmill_plugins.serving.models.model_version import ModelVersion
    from graphmill_plugins.serving.models.served_signature import ServedSignature
    from graphmill_plugins.serving.requests.batching_options import BatchingOptions

SERVER_NAME: Final = "graphmill"
PLATFORM: Final = "tensorflow_savedmodel"
_MAX_RANK: Final = 64
_MAX_SIZE: Final = 2**58
"""An exclusive limit: fewer elements of 16 bytes fit into the address space."""
SIGNATURE_PARAMETER: Final = "signature_name"
DATATYPES: Final[dict[DType, str]] = {
    dtypes.bool: "BOOL",
    dtypes.uint8: "UINT8",
    dtypes.uint16: "UINT16",
    dtypes.uint32: "UINT32",
    dtypes.uint64: "UINT64",
    dtypes.int8: "INT8",
    dtypes.int16: "INT16",
    dtypes.int32: "INT32",
    dtypes.int64: "INT64",
    dtypes.float16: "FP16",
    dtypes.float32: "FP32",
    dtypes.float64: "FP64",
    dtypes.bfloat16: "BF16",
    dtypes.string: "BYTES",
}


class TensorMetadata(NamedTuple):
    """The metadata of an input or output.

    Attributes:
        name: its name in the signature.
        datatype: its type in the protocol, such as "FP32".
        shape: its shape, -1 for a dimension of any size; [-1] if even the rank is unknown.
    """

    name: str
    datatype: str
    shape: list[int]


def find_version(manager: ModelManager, name: str, version: str | int | None) -> ModelVersion:
    """Return an available version of a model; the latest for no version.

    Raises:
        InvalidArgumentError: the version is not a number.
        NotFoundError: it does not exist, or is not available.
    """
    if isinstance(version, str):
        if version and not (version.isascii() and version.isdigit()):
            raise InvalidArgumentError(f"{version!r} is not a version; expected a whole number")
        version = int(version) if version else None
    return manager.find(name, version)


def metadata_of(specs: dict[str, TensorSpec]) -> Iterable[TensorMetadata]:
    """Yield the metadata of the inputs or outputs of a signature."""
    for name, spec in specs.items():
        shape = [-1] if spec.shape is None else list(spec.shape)
        yield TensorMetadata(name, datatype_of(name, spec.dtype), shape)


def config_of(
    model: str, signature: ServedSignature, batching: BatchingOptions
) -> dict[str, object]:
    """Return the configuration of a model, as Triton's extension of the protocol defines it.

    If requests are combined, the maximum number of rows stands for the first dimension of all
    tensors, which their sizes then leave out.
    """
    inputs, outputs = list(metadata_of(signature.inputs)), list(metadata_of(signature.outputs))
    is_batched = batching.is_enabled and all(one.shape[:1] == [-1] for one in inputs + outputs)
    config: dict[str, object] = {
        "name": model,
        "platform": PLATFORM,
        "max_batch_size": batching.max_batch_size if is_batched else 0,
        "input": [_tensor_config(one, is_batched=is_batched) for one in inputs],
        "output": [_tensor_config(one, is_batched=is_batched) for one in outputs],
    }
    if is_batched:
        microseconds = round(batching.max_wait_seconds * 1e6)
        config["dynamic_batching"] = {"max_queue_delay_microseconds": microseconds}
    return config


def _tensor_config(tensor: TensorMetadata, *, is_batched: bool) -> dict[str, object]:
    kind = "STRING" if tensor.datatype == "BYTES" else tensor.datatype
    sizes = tensor.shape[1:] if is_batched else tensor.shape
    head: dict[str, object] = {"name": tensor.name, "data_type": f"TYPE_{kind}"}
    if sizes:
        return {**head, "dims": sizes}
    return {**head, "dims": [1], "reshape": {"shape": []}}  # Triton has no empty dims


def datatype_of(name: str, dtype: DType) -> str:
    """Return the protocol's name of a type.

    Raises:
        UnimplementedError: it has none.
    """
    datatype = DATATYPES.get(dtype)
    if datatype is None:
        raise UnimplementedError(
            f"{name!r} is of type {dtype.name}, which the Open Inference Protocol lacks"
        )
    return datatype


def check_input(signature: ServedSignature, name: str, datatype: str) -> DType:
    """Return the type of an input, and check that a request states it.

    Raises:
        InvalidArgumentError: there is no such input, or its type is another.
    """
    spec = signature.inputs.get(name)
    if spec is None:
        raise InvalidArgumentError(
            f"signature {signature.name!r} has no input {name!r}; it takes "
            f"{', '.join(signature.inputs) or 'no inputs'}"
        )
    expected = datatype_of(name, spec.dtype)
    if datatype != expected:
        raise InvalidArgumentError(
            f"input {name!r} has the datatype {datatype!r}; expected {expected!r}"
        )
    return spec.dtype


def check_size(name: str, shape: Iterable[int], count: int) -> tuple[int, ...]:
    """Return the shape of a tensor, checked against the number of its elements.

    Raises:
        InvalidArgumentError: a dimension is negative, the number is another, or no array has the
            shape.
    """
    sizes = tuple(shape)
    check_rank(name, len(sizes))
    total = 1
    for size in sizes:
        if size < 0:
            raise InvalidArgumentError(
                f"the shape of input {name!r} is {list(sizes)}; sizes must not be negative"
            )
        total *= size
    if total != count:
        raise InvalidArgumentError(
            f"input {name!r} of shape {list(sizes)} has {count} elements; expected {total}"
        )
    # For an array without elements, NumPy checks the product of the other dimensions.
    if not total and math.prod(filter(None, sizes)) > _MAX_SIZE:
        raise InvalidArgumentError(f"the shape {list(sizes)} of input {name!r} is too large")
    return sizes


def check_rank(name: str, rank: int) -> None:
    """Check the number of dimensions of a tensor.

    Raises:
        InvalidArgumentError: there are more than an array can have.
    """
    if rank > _MAX_RANK:
        raise InvalidArgumentError(
            f"input {name!r} has {rank} dimensions; an array has at most {_MAX_RANK}"
        )
