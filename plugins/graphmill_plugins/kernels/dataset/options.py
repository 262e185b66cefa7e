"""GetOptions: the options that a pipeline carries.

Semantics: tensorflow/core/framework/dataset.cc and dataset_options.proto. A dataset has the options
of its inputs, where a later input overrides an earlier one, and those that it adds itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.errors import DataLossError, InvalidArgumentError
from graphmill.spi.protos import iterate_fields, length_delimited
from graphmill_plugins.kernels._strings import string_scalar
from graphmill_plugins.kernels.dataset.pipeline.dataset import dataset_kernel, dataset_of
from graphmill_plugins.kernels.dataset.pipeline.hint import Hint

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext, Value
    from graphmill.spi.protos import Field
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset

_MESSAGES: Final = frozenset({2, 3, 5, 7, 12})
"""The fields of an `Options` message that are themselves messages of scalars."""


@dataset_kernel("GetOptions")
def get_options(ctx: OpKernelContext, input_dataset: Value) -> Value:
    """Return the options of a dataset as a serialized message."""
    del ctx
    return string_scalar(_options(dataset_of(input_dataset)))


def _options(dataset: Dataset) -> bytes:
    options = b""
    for source in dataset.inputs:
        options = _merged(options, _options(source), _MESSAGES)
    if isinstance(dataset, Hint) and dataset.options:
        options = _merged(options, dataset.options, _MESSAGES)
    return options


def _merged(first: bytes, second: bytes, messages: frozenset[int] = frozenset()) -> bytes:
    """Merge two messages; return the fields sorted, where those of the second take precedence.

    Raises:
        InvalidArgumentError: one of them is no message.
    """
    fields = {number: first[field.header : field.end] for number, field in _fields(first).items()}
    earlier = _fields(first)
    for number, field in _fields(second).items():
        fields[number] = second[field.header : field.end]
        if number in messages and number in earlier:
            start, end = earlier[number].start, earlier[number].end
            content = _merged(first[start:end], second[field.start : field.end])
            fields[number] = length_delimited(number, len(content)) + content
    return b"".join(fields[number] for number in sorted(fields))


def _fields(message: bytes) -> dict[int, Field]:
    """Return the last field of each number."""
    try:
        return {field.number: field for field in iterate_fields(message, 0, len(message))}
    except DataLossError as error:
        raise InvalidArgumentError(
            f"Could not parse the serialized options of a dataset: {error.message}"
        ) from error
