"""Graphs beyond nodes and edges: function bodies, loop frames, traversals.

    from graphmill.spi.graphs import analyse_frames, instantiate_function

`Graph`, `Node`, `Edge` and `topological_order` are in `graphmill.spi` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.graph.algorithms import ancestors as ancestors
    from graphmill.graph.algorithms import is_back_edge as is_back_edge
    from graphmill.graph.frames import FrameInfo as FrameInfo
    from graphmill.graph.frames import FramePath as FramePath
    from graphmill.graph.frames import analyse_frames as analyse_frames
    from graphmill.graph.frames import frame_name as frame_name
    from graphmill.graph.frames import output_frame as output_frame
    from graphmill.graph.function_body import FunctionBody as FunctionBody
    from graphmill.graph.function_body import instantiate_function as instantiate_function
    from graphmill.graph.function_library import FunctionLibrary as FunctionLibrary
    from graphmill.graph.tensor import Tensor as Tensor
    from graphmill.ops.op_registry import OpRegistry as OpRegistry
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.graph.algorithms": "ancestors is_back_edge",
            "graphmill.graph.frames": "FrameInfo FramePath analyse_frames frame_name output_frame",
            "graphmill.graph.function_body": "FunctionBody instantiate_function",
            "graphmill.graph.function_library": "FunctionLibrary",
            "graphmill.graph.tensor": "Tensor",
            "graphmill.ops.op_registry": "OpRegistry",
        },
    )
