"""Convert graphs to other systems: `graphmill.export.convert(session, "jax", inputs, outputs)`.

Plugins register the targets (`graphmill_register_exporters`); graphmill's own are `jax` and
`stablehlo`.
"""

from __future__ import annotations

from graphmill.export.convert import convert, convert_model
from graphmill.export.export_graph import ExportGraph, ExportInput, export_graph

__all__ = ["ExportGraph", "ExportInput", "convert", "convert_model", "export_graph"]
