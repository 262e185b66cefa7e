"""Summaries for TensorBoard: of a graph's tensors, or of NumPy values.

    loss = F.placeholder("float32", [])
    graphmill.summary.scalar("loss", loss)          # a node, as in tf.compat.v1.summary
    merged = graphmill.summary.merge_all()
    with graphmill.summary.FileWriter("logs", session.graph) as writer:
        writer.add_summary(session.run(merged, {loss: 0.5}), 1)
        writer.add_scalar("accuracy", 0.9, 1)       # a value

See docs/howto/tensorboard.md.
"""

from __future__ import annotations

from graphmill.summary.file_writer import FileWriter
from graphmill.summary.nodes import audio, histogram, image, merge, merge_all, scalar, text
from graphmill.summary.writer_cache import FileWriterCache

__all__ = [
    "FileWriter",
    "FileWriterCache",
    "audio",
    "histogram",
    "image",
    "merge",
    "merge_all",
    "scalar",
    "text",
]
