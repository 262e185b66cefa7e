"""Kernels that return serialized summaries for an event file.

Semantics: tensorflow/core/kernels/summary_op.cc, summary_{image,audio,tensor}_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf.message import DecodeError

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill.spi.protos import Summary, SummaryMetadata
from graphmill_plugins.kernels._strings import string_scalar
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.parsing.tensor import tensor_message
from graphmill_plugins.kernels.summary._summary_values import add_audio, add_images, histogram

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext, Value
    from graphmill.spi.protos import TensorProto


def tag_of(tag: Value, what: str = "tag") -> str:
    """Return the tag in a scalar.

    Raises:
        InvalidArgumentError: it is not a scalar, or not UTF-8.
    """
    if tag.ndim:
        raise InvalidArgumentError(f"{what} must be scalar, got shape {shape_text(tag.shape)}")
    return _text(tag.item(), what)


def _text(tag: bytes, what: str) -> str:
    try:
        return tag.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{what} must be UTF-8, got {tag!r}") from error


def serialized(summary: Summary) -> Value:
    """Return a summary as a string scalar."""
    return string_scalar(summary.SerializeToString(deterministic=True))


@kernel("ScalarSummary", host=True)
def scalar_summary(tags: Value, values: Value) -> Value:
    """Return a summary with one value per tag."""
    if tags.shape != values.shape:
        raise InvalidArgumentError(
            f"tags and values are not the same shape: {shape_text(tags.shape)} != "
            f"{shape_text(values.shape)}"
        )
    summary = Summary()
    numbers = values.ravel().astype(np.float32).tolist()
    for tag, value in cancellable(zip(tags.ravel().tolist(), numbers, strict=True)):
        summary.value.add(tag=_text(tag, "tags"), simple_value=value)
    return serialized(summary)


@kernel("HistogramSummary", host=True)
def histogram_summary(tag: Value, values: Value) -> Value:
    """Return a summary with a histogram of values."""
    name = tag_of(tag, "tags")
    summary = Summary()
    summary.value.add(tag=name, histo=histogram(values, name))
    return serialized(summary)


@kernel("ImageSummary", host=True, expensive=True)
def image_summary(tag: Value, tensor: Value, max_images: int, bad_color: Value) -> Value:
    """Return a summary of images."""
    summary = Summary()
    add_images(summary, tag_of(tag, "Tags"), tensor, max_images, bad_color)
    return serialized(summary)


@kernel("AudioSummary", host=True)
def audio_summary(tag: Value, tensor: Value, sample_rate: float, max_outputs: int) -> Value:
    """Return a summary of audio clips."""
    summary = Summary()
    add_audio(summary, tag_of(tag, "Tag"), tensor, sample_rate, max_outputs)
    return serialized(summary)


@kernel("AudioSummaryV2", host=True)
def audio_summary_v2(tag: Value, tensor: Value, sample_rate: Value, max_outputs: int) -> Value:
    """Return a summary of audio clips."""
    summary = Summary()
    add_audio(summary, tag_of(tag, "Tag"), tensor, sample_rate.item(), max_outputs)
    return serialized(summary)


@kernel("MergeSummary", host=True)
def merge_summary(inputs: list[Value]) -> Value:
    """Merge summaries, which must have distinct tags."""
    merged = Summary()
    seen: set[str] = set()
    for item in (item for value in inputs for item in value.ravel().tolist()):
        summary = parsed_summary(item)
        for value in summary.value:
            if value.tag and value.tag in seen:
                raise InvalidArgumentError(f"Duplicate tag {value.tag} found in summary inputs")
            seen.add(value.tag)
        merged.MergeFrom(summary)
    return serialized(merged)


def parsed_summary(content: bytes) -> Summary:
    """Parse a serialized `Summary`.

    Raises:
        InvalidArgumentError: the bytes are not a `Summary`.
    """
    try:
        return Summary.FromString(content)
    except DecodeError as error:
        raise InvalidArgumentError(
            "Could not parse one of the summary inputs: expected serialized Summary messages"
        ) from error


@kernel("TensorSummary", stateful=True, host=True)
def tensor_summary(ctx: OpKernelContext, tensor: Value, T: np.dtype[Any]) -> Value:
    """Return a summary of a tensor, tagged with the name of the node."""
    summary = Summary()
    summary.value.add(node_name=ctx.node_name, tensor=tensor_message(tensor, as_dtype(T)))
    return serialized(summary)


@kernel("TensorSummaryV2", host=True)
def tensor_summary_v2(tag: Value, tensor: Value, metadata: Value, T: np.dtype[Any]) -> Value:
    """Return a summary of a tensor."""
    summary = Summary()
    add_tensor(summary, tag, tensor_message(tensor, as_dtype(T)), metadata)
    summary.value[0].metadata.SetInParent()  # TensorFlow sets it even if it is empty
    return serialized(summary)


def add_tensor(summary: Summary, tag: Value, message: TensorProto, metadata: Value) -> None:
    """Add a tensor and its metadata to a summary.

    Raises:
        InvalidArgumentError: tag or metadata are malformed.
    """
    try:
        summary_metadata = SummaryMetadata.FromString(metadata.item())
    except (DecodeError, ValueError) as error:
        raise InvalidArgumentError("Could not parse the metadata of a summary") from error
    value = summary.value.add(tag=tag_of(tag), tensor=message)
    if metadata.item():
        value.metadata.CopyFrom(summary_metadata)
