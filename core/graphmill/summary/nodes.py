"""Nodes that compute serialized summaries of tensors, as in `tf.compat.v1.summary`.

Semantics: tensorflow/python/summary/summary.py. The tag of a summary is its name, prefixed by the
name scopes around it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from graphmill import ops
from graphmill.deprecations import warn_renamed
from graphmill.dtypes import DType, string
from graphmill.errors import InvalidArgumentError
from graphmill.graph.infer_graph import infer_graph
from graphmill.proto.summary_pb2 import SummaryMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.builder import Graph
    from graphmill.graph.tensor import Tensor

_ILLEGAL: Final = re.compile(r"[^-/\w.]")
_SUMMARIES: Final = "summaries"


def scalar(
    name: str, tensor: Any, collections: Sequence[str] | None = None, family: str | None = None
) -> Tensor:
    """Add a node that summarizes a scalar.

    Args:
        name: the tag, without the name scopes.
        tensor: a scalar of a real type.
        collections: the keys of the collections that get the summary, by default the one that
            `merge_all` merges.
        family: a prefix of the tag, by which TensorBoard groups summaries.

    Returns:
        A serialized `Summary`, a string scalar.
    """
    return _add(name, tensor, ops.summary.scalar_summary, collections, family)


def histogram(
    name: str, values: Any, collections: Sequence[str] | None = None, family: str | None = None
) -> Tensor:
    """Add a node that summarizes the distribution of values of any shape; see `scalar`.

    A step fails with InvalidArgumentError if a value is NaN or infinite.
    """
    return _add(name, values, ops.summary.histogram_summary, collections, family)


def image(
    name: str,
    tensor: Any,
    max_outputs: int = 3,
    collections: Sequence[str] | None = None,
    family: str | None = None,
) -> Tensor:
    """Add a node that summarizes images.

    Args:
        name: the tag, without the name scopes.
        tensor: images of uint8 or floats, `[batch, height, width, channels]` with 1, 3 or 4
            channels. Floats are scaled to 0 to 255, negative ones around 128.
        max_outputs: the maximum number of images of a batch.
        collections, family: as in `scalar`.
    """

    def make(tag: Any, images: Any, name: str) -> Tensor:
        summary: Tensor = ops.summary.image_summary(tag, images, max_images=max_outputs, name=name)
        return summary

    return _add(name, tensor, make, collections, family)


def audio(
    name: str,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Sequence[str] | None = None,
    family: str | None = None,
) -> Tensor:
    """Add a node that summarizes audio clips.

    Args:
        name: the tag, without the name scopes.
        tensor: clips of float32 in [-1, 1], `[batch, frames]` or `[batch, frames, channels]`.
        sample_rate: frames per second, a scalar of float32.
        max_outputs: the maximum number of clips of a batch.
        collections, family: as in `scalar`.
    """

    def make(tag: Any, clips: Any, name: str) -> Tensor:
        summary: Tensor = ops.summary.audio_summary_v2(
            tag, clips, sample_rate, max_outputs=max_outputs, name=name
        )
        return summary

    return _add(name, tensor, make, collections, family)


def text(name: str, tensor: Any, collections: Sequence[str] | None = None) -> Tensor:
    """Add a node that summarizes strings, which TensorBoard shows as Markdown; see `scalar`.

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

    return _add(name, tensor, make, collections, None)


def merge(
    inputs: Sequence[Any], collections: Sequence[str] | None = None, name: str | None = None
) -> Tensor:
    """Add a node that merges serialized summaries.

    Args:
        inputs: the summaries.
        collections: the keys of the collections that get the result, by default none.
        name: name of the node and of its scope.

    Raises:
        InvalidArgumentError: there are none, or two have a tag in common (when it is run).
    """
    if not inputs:
        raise InvalidArgumentError("there are no summaries to merge")
    graph = infer_graph(*inputs)
    with graph.as_default(), graph.name_scope(name or "Merge"):
        merged: Tensor = ops.summary.merge_summary(list(inputs), name=name)
    _collect(merged, collections or ())
    return merged


def merge_all(
    key: str | Graph = _SUMMARIES,
    scope: str | None = None,
    name: str | None = None,
    *,
    graph: Graph | None = None,
) -> Tensor | None:
    """Merge all summaries that were added to a graph.

    Args:
        key: the key of the collection of summaries. A graph is accepted with a warning for one
            version.
        scope: a regular expression; only summaries whose names begin with it are merged.
        name: name of the node and of its scope.
        graph: the graph; by default the default graph.

    Returns:
        A serialized `Summary`, a string scalar; None if there are none.
    """
    if not isinstance(key, str):
        warn_renamed("the first argument, a graph, of merge_all", "graph")
        graph, key = key, _SUMMARIES
    summaries = (graph or infer_graph()).get_collection(key, scope)
    return merge(summaries, name=name) if summaries else None


def text_metadata(name: str) -> SummaryMetadata:
    """Return the metadata by which TensorBoard shows strings as text."""
    metadata = SummaryMetadata(display_name=name)
    metadata.plugin_data.plugin_name = "text"
    return metadata


def _add(
    name: str,
    tensor: Any,
    make: Callable[..., Tensor],
    collections: Sequence[str] | None,
    family: str | None,
) -> Tensor:
    """Add a node under a unique name; its tag is that name, prefixed by the family."""
    graph = infer_graph(tensor)
    label = _ILLEGAL.sub("_", name)
    prefix = "" if family is None else _ILLEGAL.sub("_", family) + "/"
    with graph.as_default(), graph.name_scope(prefix + label) as scope:
        tag = prefix + scope.rstrip("/")
        summary = make(tag.encode(), tensor, name=scope)
    _collect(summary, (_SUMMARIES,) if collections is None else collections)
    return summary


def _collect(summary: Tensor, collections: Sequence[str]) -> None:
    for key in collections:
        if key == _SUMMARIES:
            summary.graph.summaries.append(summary)
        else:
            summary.graph.add_to_collection(key, summary)
