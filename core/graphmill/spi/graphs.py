"""Graphs beyond nodes and edges: roles of nodes, function bodies, loop frames, traversals.

    from graphmill.spi.graphs import analyse_frames, instantiate_function

`Graph`, `Node`, `Edge` and `topological_order` are in `graphmill.spi` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.graph.algorithms import ancestors as ancestors
    from graphmill.graph.algorithms import is_back_edge as is_back_edge
    from graphmill.graph.attrs_cache import AttrsCache as AttrsCache
    from graphmill.graph.control_flow.frames import FrameInfo as FrameInfo
    from graphmill.graph.control_flow.frames import FramePath as FramePath
    from graphmill.graph.control_flow.frames import analyse_frames as analyse_frames
    from graphmill.graph.control_flow.frames import frame_name as frame_name
    from graphmill.graph.control_flow.frames import output_frame as output_frame
    from graphmill.graph.device_name import parse_device_name as parse_device_name
    from graphmill.graph.formats.import_export import graph_from_graph_def as graph_from_graph_def
    from graphmill.graph.functions.function_body import FunctionBody as FunctionBody
    from graphmill.graph.functions.function_body import instantiate_function as instantiate_function
    from graphmill.graph.functions.function_calls import CalledFunction as CalledFunction
    from graphmill.graph.functions.function_calls import called_functions as called_functions
    from graphmill.graph.functions.function_calls import calls_of as calls_of
    from graphmill.graph.functions.function_calls import requested_executor as requested_executor
    from graphmill.graph.functions.function_library import FunctionLibrary as FunctionLibrary
    from graphmill.graph.node_roles import forwarded as forwarded
    from graphmill.graph.node_roles import is_argument as is_argument
    from graphmill.graph.node_roles import is_argument_or_result as is_argument_or_result
    from graphmill.graph.node_roles import is_constant as is_constant
    from graphmill.graph.node_roles import is_constant_enter as is_constant_enter
    from graphmill.graph.node_roles import is_control_trigger as is_control_trigger
    from graphmill.graph.node_roles import is_enter as is_enter
    from graphmill.graph.node_roles import is_exit as is_exit
    from graphmill.graph.node_roles import is_loop_cond as is_loop_cond
    from graphmill.graph.node_roles import is_merge as is_merge
    from graphmill.graph.node_roles import is_next_iteration as is_next_iteration
    from graphmill.graph.node_roles import is_placeholder as is_placeholder
    from graphmill.graph.node_roles import is_receive as is_receive
    from graphmill.graph.node_roles import is_result as is_result
    from graphmill.graph.node_roles import is_send as is_send
    from graphmill.graph.node_roles import is_switch as is_switch
    from graphmill.graph.node_roles import is_transfer as is_transfer
    from graphmill.graph.node_roles import without_forwarding as without_forwarding
    from graphmill.graph.tensor import Tensor as Tensor
    from graphmill.graph.transfer_ops import NEVER_DEAD_ATTR as NEVER_DEAD_ATTR
    from graphmill.ops.definition.op_registry import OpRegistry as OpRegistry
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.graph.algorithms": "ancestors is_back_edge",
            "graphmill.graph.attrs_cache": "AttrsCache",
            "graphmill.graph.device_name": "parse_device_name",
            "graphmill.graph.control_flow.frames": (
                "FrameInfo FramePath analyse_frames frame_name output_frame"
            ),
            "graphmill.graph.formats.import_export": "graph_from_graph_def",
            "graphmill.graph.functions.function_body": "FunctionBody instantiate_function",
            "graphmill.graph.functions.function_calls": (
                "CalledFunction called_functions calls_of requested_executor"
            ),
            "graphmill.graph.functions.function_library": "FunctionLibrary",
            "graphmill.graph.node_roles": (
                "forwarded is_argument is_argument_or_result is_constant is_constant_enter "
                "is_control_trigger is_enter is_exit is_loop_cond is_merge is_next_iteration "
                "is_placeholder is_receive is_result is_send is_switch is_transfer "
                "without_forwarding"
            ),
            "graphmill.graph.tensor": "Tensor",
            "graphmill.graph.transfer_ops": "NEVER_DEAD_ATTR",
            "graphmill.ops.definition.op_registry": "OpRegistry",
        },
    )
