"""Convert graphs to other systems: `graphmill.export.convert(session, "jax", inputs, outputs)`.

Plugins register the targets (`graphmill_register_exporters`); graphmill's own are `jax`,
`stablehlo`, `onnx` and `saved_model`.
"""

from __future__ import annotations

from graphmill.export.convert import convert, convert_model
from graphmill.export.export_graph import ExportGraph, ExportInput, export_graph
from graphmill.export.freeze import freeze, freeze_model
from graphmill.export.frozen_model import FrozenModel

__all__ = [
    "ExportGraph",
    "ExportInput",
    "FrozenModel",
    "convert",
    "convert_model",
    "export_graph",
    "freeze",
    "freeze_model",
]
