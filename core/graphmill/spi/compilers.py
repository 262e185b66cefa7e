"""Tools for passes that compile parts of a graph: kernels, functions, memory, state machines.

    from graphmill.spi.compilers import FunctionLibraryRuntime

`compilation_of` records what `graphmill explain` shows about compiled parts; it is in
`graphmill.spi` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.explain.compilation import CallCounts as CallCounts
    from graphmill.explain.compilation import RegionNote as RegionNote
    from graphmill.export.export_graph import ExportGraph as ExportGraph
    from graphmill.export.export_graph import ExportInput as ExportInput
    from graphmill.graph.shapes.body_shapes import body_shapes as body_shapes
    from graphmill.lowering.functions.function_runtime import (
        FunctionLibraryRuntime as FunctionLibraryRuntime,
    )
    from graphmill.lowering.kernel_factory import KernelFactory as KernelFactory
    from graphmill.lowering.placement.memory_types import MemoryTypeFinder as MemoryTypeFinder
    from graphmill.lowering.placement.memory_types import ensure_memory_types as ensure_memory_types
    from graphmill.lowering.shape_sources import ShapeSources as ShapeSources
    from graphmill.memory import ALIGNMENT as ALIGNMENT
    from graphmill.memory import TransferredMemory as TransferredMemory
    from graphmill.memory import aligned_empty as aligned_empty
    from graphmill.ops.definition.system_ops import COPY_TO_DEVICE as COPY_TO_DEVICE
    from graphmill.ops.definition.system_ops import COPY_TO_HOST as COPY_TO_HOST
    from graphmill.ops.inference.shape_inference import infer_shapes as infer_shapes
    from graphmill.ops.inference.shape_inference import shape_function as shape_function
    from graphmill.plugin.host import default_host as default_host
    from graphmill.runtime.kernels.kernel_choice import KernelChoice as KernelChoice
    from graphmill.runtime.kernels.lowering_registry import supplier_of as supplier_of
    from graphmill.runtime.kernels.op_kernel import wanted_attrs as wanted_attrs
    from graphmill.runtime.pytree import PytreeDef as PytreeDef
    from graphmill.runtime.pytree import declared_pytrees as declared_pytrees
    from graphmill.runtime.pytree import pytree_of as pytree_of
    from graphmill.runtime.resources.compiler_form import forms_of as forms_of
    from graphmill.runtime.resources.compiler_form import register_form as register_form
    from graphmill.runtime.resources.compiler_form import set_forms as set_forms
    from graphmill.runtime.resources.exclusive_update import acquire as acquire
    from graphmill.runtime.resources.exclusive_update import is_sole_holder as is_sole_holder
    from graphmill.runtime.resources.exclusive_update import release as release
    from graphmill.runtime.resources.exclusive_update import set_value as set_value
    from graphmill.runtime.resources.exclusive_update import value_of as value_of
    from graphmill.runtime.state_machine import Label as Label
    from graphmill.runtime.state_machine import StateMachine as StateMachine
    from graphmill.runtime.state_machine import Transition as Transition
    from graphmill.runtime.state_machine import TransitionHistory as TransitionHistory
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.explain.compilation": "CallCounts RegionNote",
            "graphmill.export.export_graph": "ExportGraph ExportInput",
            "graphmill.graph.shapes.body_shapes": "body_shapes",
            "graphmill.lowering.functions.function_runtime": "FunctionLibraryRuntime",
            "graphmill.lowering.kernel_factory": "KernelFactory",
            "graphmill.lowering.placement.memory_types": "MemoryTypeFinder ensure_memory_types",
            "graphmill.lowering.shape_sources": "ShapeSources",
            "graphmill.memory": "ALIGNMENT TransferredMemory aligned_empty",
            "graphmill.ops.definition.system_ops": "COPY_TO_DEVICE COPY_TO_HOST",
            "graphmill.ops.inference.shape_inference": "infer_shapes shape_function",
            "graphmill.plugin.host": "default_host",
            "graphmill.runtime.resources.compiler_form": "forms_of register_form set_forms",
            "graphmill.runtime.resources.exclusive_update": (
                "acquire is_sole_holder release set_value value_of"
            ),
            "graphmill.runtime.kernels.op_kernel": "wanted_attrs",
            "graphmill.runtime.kernels.kernel_choice": "KernelChoice",
            "graphmill.runtime.kernels.lowering_registry": "supplier_of",
            "graphmill.runtime.pytree": "PytreeDef declared_pytrees pytree_of",
            "graphmill.runtime.state_machine": "Label StateMachine Transition TransitionHistory",
        },
    )
