"""Nodes that compute serialized summaries of tensors, as in `tf.compat.v1.summary`.

Semantics: tensorflow/python/summary/summary.py. The tag of a summary is its name, with that of the
name scopes around it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from graphmill import ops
from graphmill.dtypes import DType, string
from graphmill.errors import InvalidArgumentError
from graphmill.graph.infer_graph import infer_graph
from graphmill.proto.summary_pb2 import SummaryMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.builder import Graph
    from graphmill.graph.tensor import Tensor

_ILLEGAL: Final = re.compile(r"[^-/\w.]")


def scalar(name: str, tensor: Any) -> Tensor:
    """Add a node that summarizes a scalar.

    Args:
        name: the tag, without the name scopes.
        tensor: a scalar of a real type.

    Returns:
        A serialized `Summary`, a string scalar.
    """
    return _add(name, tensor, ops.summary.scalar_summary)


def histogram(name: str, values: Any) -> Tensor:
    """Add a node that summarizes the distribution of values of any shape.

    A step fails with InvalidArgumentError if a value is NaN or infinite.
    """
    return _add(name, values, ops.summary.histogram_summary)


def image(name: str, tensor: Any, max_outputs: int = 3) -> Tensor:
    """Add a node that summarizes images.

    Args:
        name: the tag, without the name scopes.
        tensor: images of uint8 or floats, `[batch, height, width, channels]` with 1, 3 or 4
            channels. Floats are scaled to 0 to 255, negative ones around 128.
        max_outputs: the maximum number of images of a batch.
    """

    def make(tag: Any, images: Any, name: str) -> Tensor:
        summary: Tensor = ops.summary.image_summary(tag, images, max_images=max_outputs, name=name)
        return summary

    return _add(name, tensor, make)


def audio(name: str, tensor: Any, sample_rate: Any, max_outputs: int = 3) -> Tensor:
    """Add a node that summarizes audio clips.

    Args:
        name: the tag, without the name scopes.
        tensor: clips of float32 in [-1, 1], `[batch, frames]` or `[batch, frames, channels]`.
        sample_rate: frames per second, a scalar of float32.
        max_outputs: the maximum number of clips of a batch.
    """

    def make(tag: Any, clips: Any, name: str) -> Tensor:
        summary: Tensor = ops.summary.audio_summary_v2(
            tag, clips, sample_rate, max_outputs=max_outputs, name=name
        )
        return summary

    return _add(name, tensor, make)


def text(name: str, tensor: Any) -> Tensor:
    """Add a node that summarizes strings, which TensorBoard shows as Markdown.

    Raises:
        InvalidArgumentError: it is a tensor of another type.
    """
    metadata = text_metadata(name).SerializeToString()

    def make(tag: Any, strings: Any, name: str) -> Tensor:
        dtype = getattr(strings, "dtype", string)
        if isinstance(dtype, DType) and dtype != string:
            raise InvalidArgumentError(
                f"summary.text takes strings, but {strings.name!r} is {dtype.name}; convert it "
                "with graphmill.ops.string.as_string"
            )
        summary: Tensor = ops.summary.tensor_summary_v2(tag, strings, metadata, name=name)
        return summary

    return _add(name, tensor, make)


def merge(inputs: Sequence[Any], name: str = "Merge/MergeSummary") -> Tensor:
    """Add a node that merges serialized summaries.

    Raises:
        InvalidArgumentError: there are none, or two have a tag in common (when it is run).
    """
    if not inputs:
        raise InvalidArgumentError("there are no summaries to merge")
    with infer_graph(*inputs).as_default():
        merged: Tensor = ops.summary.merge_summary(list(inputs), name=name)
    return merged


def merge_all(graph: Graph | None = None) -> Tensor | None:
    """Merge all summaries that were added to a graph, by default the current one.

    Returns:
        A serialized `Summary`, a string scalar; None if there are none.
    """
    summaries = (graph or infer_graph()).summaries
    return merge(summaries) if summaries else None


def text_metadata(name: str) -> SummaryMetadata:
    """Return the metadata by which TensorBoard shows strings as text."""
    metadata = SummaryMetadata(display_name=name)
    metadata.plugin_data.plugin_name = "text"
    return metadata


def _add(name: str, tensor: Any, make: Callable[..., Tensor]) -> Tensor:
    """Add a node under a unique name, which is also the tag."""
    graph = infer_graph(tensor)
    with graph.as_default(), graph.name_scope(_ILLEGAL.sub("_", name)) as scope:
        tag = scope.rstrip("/")
        summary = make(tag.encode(), tensor, name=scope)
    graph.summaries.append(summary)
    return summary
