"""Kernels of datasets that assert which transformations precede or follow them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.spi.protos import proto
from graphmill_plugins.kernels._strings import decode
from graphmill_plugins.kernels.dataset.pipeline.assertions import AssertNext, AssertPrevious
from graphmill_plugins.kernels.dataset.pipeline.dataset import dataset_maker, dataset_of

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset


def _vector(transformations: Value) -> list[bytes]:
    if transformations.ndim != 1:
        raise InvalidArgumentError(
            f"transformations must be a vector, got shape {list(transformations.shape)}"
        )
    names: list[bytes] = transformations.tolist()
    return names


@dataset_maker("AssertNextDataset", "ExperimentalAssertNextDataset")
def assert_next_dataset(ctx: OpKernelContext, source: Value, transformations: Value) -> Dataset:
    """Make a dataset that fails unless the next datasets have certain names."""
    del ctx
    return AssertNext(dataset_of(source), list(map(decode, _vector(transformations))))


@dataset_maker("AssertPrevDataset")
def assert_prev_dataset(ctx: OpKernelContext, source: Value, transformations: Value) -> Dataset:
    """Make a dataset that fails unless the previous datasets have certain ops and attrs.

    Raises:
        InvalidArgumentError: a transformation is no `NameAttrList` in text form.
    """
    calls = list(map(_call, _vector(transformations)))
    return AssertPrevious(dataset_of(source), calls, ctx.functions.host.ops)


def _call(text: bytes) -> Any:
    from google.protobuf import text_format

    try:
        return text_format.Parse(text, proto.NameAttrList())
    except text_format.ParseError as error:
        raise InvalidArgumentError(
            f"Couldn't parse transformation {decode(text)!r} as a NameAttrList: {error}"
        ) from error
