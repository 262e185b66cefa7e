"""Kernels that write events to files for TensorBoard.

Semantics: tensorflow/core/kernels/summary_kernels.cc.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf.message import DecodeError

from graphmill.dtypes import as_dtype
from graphmill.errors import DataLossError, InvalidArgumentError
from graphmill.spi import ResourceHandle, kernel
from graphmill.spi.files import as_path
from graphmill.spi.protos import Event, GraphDef, Summary
from graphmill_plugins.kernels._path_strings import sole_text
from graphmill_plugins.kernels.parsing.tensor import tensor_message
from graphmill_plugins.kernels.state.value import node_key
from graphmill_plugins.kernels.summary._event_file import EventFile, SummaryWriter
from graphmill_plugins.kernels.summary._summary_values import add_audio, add_images, histogram
from graphmill_plugins.kernels.summary.protos import add_tensor, parsed_summary, tag_of

if TYPE_CHECKING:
    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value
    from graphmill.spi.files import Broker

_FILE: dict[str, Any] = {
    "stateful": True,
    "host": True,
    "effects": ("fs.write", "state"),
    "brokered": True,
}
_WRITE: dict[str, Any] = {
    "stateful": True,
    "host": True,
    "effects": ("clock", "fs.write", "state"),
    "brokered": True,  # the file was opened through the broker of CreateSummaryFileWriter
}


@kernel("SummaryWriter", stateful=True, host=True, effects=("state",))
class SummaryWriterKernel:
    """Return the handle of a writer, which has no file yet."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._container, self._name = node_key(construction)

    def __call__(self, ctx: OpKernelContext) -> ResourceHandle:
        """Return the handle."""
        writer = ctx.resources.lookup_or_create(
            self._container, self._name, SummaryWriter, SummaryWriter
        )
        container = self._container or ctx.resources.default_container
        return ResourceHandle(ctx.device.name, container, self._name, "SummaryWriter", writer)


def _writer(handle: Any) -> SummaryWriter:
    writer: SummaryWriter = handle.expect(SummaryWriter)
    return writer


def _number(value: Value, what: str) -> int:
    if value.ndim:
        raise InvalidArgumentError(f"{what} must be a scalar, got shape {list(value.shape)}")
    return int(value)


@kernel("CreateSummaryFileWriter", **_FILE)
def create_summary_file_writer(
    ctx: OpKernelContext,
    writer: Any,
    logdir: Value,
    max_queue: Value,
    flush_millis: Value,
    filename_suffix: Value,
    *,
    broker: Broker,
) -> None:
    """Create an event file, unless the writer has one."""
    del ctx
    _writer(writer).create(
        as_path(sole_text(logdir, "logdir")),
        _number(max_queue, "max_queue"),
        _number(flush_millis, "flush_millis") / 1000,
        sole_text(filename_suffix, "filename_suffix"),
        broker,
    )


@kernel("FlushSummaryWriter", **_FILE)
def flush_summary_writer(ctx: OpKernelContext, writer: Any) -> None:
    """Write buffered events."""
    del ctx
    _writer(writer).file().flush()


@kernel("CloseSummaryWriter", **_FILE)
def close_summary_writer(ctx: OpKernelContext, writer: Any) -> None:
    """Write buffered events, and close the file."""
    del ctx
    _writer(writer).close()


def _file(writer: Any) -> EventFile:
    return _writer(writer).file()


@kernel("WriteSummary", **_WRITE)
def write_summary(
    ctx: OpKernelContext,
    writer: Any,
    step: Value,
    tensor: Value,
    tag: Value,
    summary_metadata: Value,
    T: np.dtype[Any],
) -> None:
    """Write a summary of a tensor."""
    del ctx
    summary = Summary()
    add_tensor(summary, tag, tensor_message(tensor, as_dtype(T)), summary_metadata)
    _file(writer).add_summary(summary, _number(step, "step"))


@kernel("WriteScalarSummary", **_WRITE)
def write_scalar_summary(
    ctx: OpKernelContext, writer: Any, step: Value, tag: Value, value: Value
) -> None:
    """Write a summary of a scalar."""
    del ctx
    if value.ndim:
        raise InvalidArgumentError(f"value must be a scalar, got shape {list(value.shape)}")
    summary = Summary()
    summary.value.add(tag=tag_of(tag), simple_value=float(np.float32(value)))
    _file(writer).add_summary(summary, _number(step, "step"))


@kernel("WriteHistogramSummary", **_WRITE)
def write_histogram_summary(
    ctx: OpKernelContext, writer: Any, step: Value, tag: Value, values: Value
) -> None:
    """Write a summary with a histogram of values."""
    del ctx
    name = tag_of(tag)
    summary = Summary()
    summary.value.add(tag=name, histo=histogram(values, name))
    _file(writer).add_summary(summary, _number(step, "step"))


@kernel("WriteImageSummary", **_WRITE)
def write_image_summary(
    ctx: OpKernelContext,
    writer: Any,
    step: Value,
    tag: Value,
    tensor: Value,
    bad_color: Value,
    max_images: int,
) -> None:
    """Write a summary of images."""
    del ctx
    summary = Summary()
    add_images(summary, tag_of(tag), tensor, max_images, bad_color)
    _file(writer).add_summary(summary, _number(step, "step"))


@kernel("WriteAudioSummary", **_WRITE)
def write_audio_summary(
    ctx: OpKernelContext,
    writer: Any,
    step: Value,
    tag: Value,
    tensor: Value,
    sample_rate: Value,
    max_outputs: int,
) -> None:
    """Write a summary of audio clips."""
    del ctx
    if sample_rate.ndim:
        raise InvalidArgumentError("sample_rate must be a scalar")
    summary = Summary()
    add_audio(summary, tag_of(tag), tensor, float(sample_rate), max_outputs)
    _file(writer).add_summary(summary, _number(step, "step"))


@kernel("WriteGraphSummary", **_WRITE)
def write_graph_summary(ctx: OpKernelContext, writer: Any, step: Value, tensor: Value) -> None:
    """Write a graph from a serialized GraphDef."""
    del ctx
    content = _content(tensor)
    try:
        GraphDef.FromString(content)
    except DecodeError as error:
        raise DataLossError(
            "Could not parse the input of a WriteGraphSummary as a GraphDef"
        ) from error
    event = Event(wall_time=time.time(), step=_number(step, "step"), graph_def=content)
    _file(writer).add(event)


@kernel("WriteRawProtoSummary", **_WRITE)
def write_raw_proto_summary(ctx: OpKernelContext, writer: Any, step: Value, tensor: Value) -> None:
    """Write serialized summaries."""
    del ctx
    merged = Summary()
    for item in tensor.ravel().tolist():
        merged.MergeFrom(parsed_summary(item))
    _file(writer).add_summary(merged, _number(step, "step"))


@kernel("ImportEvent", **_FILE)
def import_event(ctx: OpKernelContext, writer: Any, event: Value) -> None:
    """Write a serialized event."""
    del ctx
    try:
        message = Event.FromString(_content(event))
    except DecodeError as error:
        raise InvalidArgumentError("Could not parse the event of an ImportEvent") from error
    _file(writer).add(message)


def _content(value: Value) -> bytes:
    if value.ndim:
        raise InvalidArgumentError(f"expected a string scalar, got shape {list(value.shape)}")
    content: bytes = value.item()
    return content
