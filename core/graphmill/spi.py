"""What plugins may import: one module, with a version of its own.

    from graphmill.spi import Device, DeviceFactory, hookimpl

Names are imported when they are first used, so that a plugin module that only needs `hookimpl`
costs nothing more. What is not listed here is not promised to plugins; `graphmill` itself is for
programs that run graphs, and `graphmill.testing` for tests.

A plugin module says which versions it works with:

    GRAPHMILL_SPI = ">=1.0,<2"

A host does not use a plugin that asks for another version, and says so in one line.
`VERSION` counts as docs/explanation/stability.md tells: the first number changes when something is
taken away or means something else, the second when something is added.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from graphmill.plugin.spi_version import VERSION

if TYPE_CHECKING:
    from graphmill import dtypes, errors
    from graphmill.explain.compilation import (
        COMPILED,
        STRAIGHT_LINE,
        ClusterRecord,
        Compilation,
        CompileRecord,
        OutsideNote,
        SignatureRecord,
        compilation_of,
    )
    from graphmill.graph.algorithms import topological_order
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import CONTROL_SLOT, Edge, Node
    from graphmill.ops.attr_types import NO_DEFAULT, FuncAttr, TensorAttr
    from graphmill.ops.define import op
    from graphmill.ops.op_def import ArgDef, AttrDef, OpDef
    from graphmill.ops.op_functions import op_function
    from graphmill.ops.op_traits import (
        EFFECTS,
        CallKind,
        ControlFlow,
        FunctionCall,
        OpTraits,
        Randomness,
        ResourceUse,
        Source,
    )
    from graphmill.ops.shape_inference import ShapeContext
    from graphmill.ops.tensor_shape import TensorShape
    from graphmill.plugin.gradient_declaration import gradient
    from graphmill.plugin.host import Host
    from graphmill.plugin.markers import hookimpl
    from graphmill.plugin.pass_registry import PHASES
    from graphmill.plugin.settings import plugin_settings
    from graphmill.plugin.step_observers import StepInfo
    from graphmill.runtime.allocator import Allocator, AllocatorStats, LimitedAllocator
    from graphmill.runtime.call_frame import CallFrame
    from graphmill.runtime.cancellation import CancellationManager
    from graphmill.runtime.dead import DEAD
    from graphmill.runtime.device import Device, DeviceAttributes, DeviceFactory
    from graphmill.runtime.executor import (
        Executor,
        ExecutorArgs,
        ExecutorFactory,
        LocalExecutorParams,
    )
    from graphmill.runtime.kernel import (
        KernelDef,
        KernelTable,
        OpKernel,
        OpKernelConstruction,
        bind,
        kernel,
        kernels_of,
    )
    from graphmill.runtime.kernel_errors import as_status, at_node, step_cancelled, with_reason
    from graphmill.runtime.kernel_io import (
        check_output,
        check_outputs,
        checked_dtypes,
        read_refs,
        refs_to_read,
    )
    from graphmill.runtime.lowering import (
        Check,
        Lowering,
        LoweringTable,
        NotTraceable,
        TraceContext,
        lowering,
    )
    from graphmill.runtime.op_kernel_context import OpKernelContext
    from graphmill.runtime.rendezvous import (
        IntraProcessRendezvous,
        Rendezvous,
        RendezvousKey,
        TransferArgs,
    )
    from graphmill.runtime.resource_mgr import ResourceMgr
    from graphmill.runtime.step_runner import StepRunner
    from graphmill.runtime.transport import Transport
    from graphmill.runtime.variables import Ref, ResourceHandle, Variable

__all__ = [
    "COMPILED",
    "CONTROL_SLOT",
    "DEAD",
    "EFFECTS",
    "NO_DEFAULT",
    "PHASES",
    "STRAIGHT_LINE",
    "VERSION",
    "Allocator",
    "AllocatorStats",
    "ArgDef",
    "AttrDef",
    "CallFrame",
    "CallKind",
    "CancellationManager",
    "Check",
    "ClusterRecord",
    "Compilation",
    "CompileRecord",
    "ControlFlow",
    "Device",
    "DeviceAttributes",
    "DeviceFactory",
    "Edge",
    "Executor",
    "ExecutorArgs",
    "ExecutorFactory",
    "FuncAttr",
    "FunctionCall",
    "Graph",
    "Host",
    "IntraProcessRendezvous",
    "KernelDef",
    "KernelTable",
    "LimitedAllocator",
    "LocalExecutorParams",
    "Lowering",
    "LoweringTable",
    "Node",
    "NotTraceable",
    "OpDef",
    "OpKernel",
    "OpKernelConstruction",
    "OpKernelContext",
    "OpTraits",
    "OutsideNote",
    "Randomness",
    "Ref",
    "Rendezvous",
    "RendezvousKey",
    "ResourceHandle",
    "ResourceMgr",
    "ResourceUse",
    "ShapeContext",
    "SignatureRecord",
    "Source",
    "StepInfo",
    "StepRunner",
    "TensorAttr",
    "TensorShape",
    "TraceContext",
    "TransferArgs",
    "Transport",
    "Variable",
    "as_status",
    "at_node",
    "bind",
    "check_output",
    "check_outputs",
    "checked_dtypes",
    "compilation_of",
    "dtypes",
    "errors",
    "gradient",
    "hookimpl",
    "kernel",
    "kernels_of",
    "lowering",
    "op",
    "op_function",
    "plugin_settings",
    "read_refs",
    "refs_to_read",
    "step_cancelled",
    "topological_order",
    "with_reason",
]

_MODULES = {"dtypes", "errors"}
_HOMES = {
    "graphmill.explain.compilation": (
        *("COMPILED", "STRAIGHT_LINE", "ClusterRecord", "Compilation", "CompileRecord"),
        *("OutsideNote", "SignatureRecord", "compilation_of"),
    ),
    "graphmill.graph.algorithms": ("topological_order",),
    "graphmill.graph.graph": ("Graph",),
    "graphmill.graph.node": ("CONTROL_SLOT", "Edge", "Node"),
    "graphmill.ops.attr_types": ("NO_DEFAULT", "FuncAttr", "TensorAttr"),
    "graphmill.ops.define": ("op",),
    "graphmill.ops.op_def": ("ArgDef", "AttrDef", "OpDef"),
    "graphmill.ops.op_functions": ("op_function",),
    "graphmill.ops.op_traits": (
        *("EFFECTS", "CallKind", "ControlFlow", "FunctionCall", "OpTraits", "Randomness"),
        *("ResourceUse", "Source"),
    ),
    "graphmill.ops.shape_inference": ("ShapeContext",),
    "graphmill.ops.tensor_shape": ("TensorShape",),
    "graphmill.plugin.gradient_declaration": ("gradient",),
    "graphmill.plugin.host": ("Host",),
    "graphmill.plugin.markers": ("hookimpl",),
    "graphmill.plugin.pass_registry": ("PHASES",),
    "graphmill.plugin.settings": ("plugin_settings",),
    "graphmill.plugin.step_observers": ("StepInfo",),
    "graphmill.runtime.allocator": ("Allocator", "AllocatorStats", "LimitedAllocator"),
    "graphmill.runtime.call_frame": ("CallFrame",),
    "graphmill.runtime.cancellation": ("CancellationManager",),
    "graphmill.runtime.dead": ("DEAD",),
    "graphmill.runtime.device": ("Device", "DeviceAttributes", "DeviceFactory"),
    "graphmill.runtime.executor": (
        *("Executor", "ExecutorArgs", "ExecutorFactory", "LocalExecutorParams"),
    ),
    "graphmill.runtime.kernel": (
        *("KernelDef", "KernelTable", "OpKernel", "OpKernelConstruction", "bind", "kernel"),
        "kernels_of",
    ),
    "graphmill.runtime.kernel_errors": ("as_status", "at_node", "step_cancelled", "with_reason"),
    "graphmill.runtime.kernel_io": (
        *("check_output", "check_outputs", "checked_dtypes", "read_refs", "refs_to_read"),
    ),
    "graphmill.runtime.lowering": (
        *("Check", "Lowering", "LoweringTable", "NotTraceable", "TraceContext", "lowering"),
    ),
    "graphmill.runtime.op_kernel_context": ("OpKernelContext",),
    "graphmill.runtime.rendezvous": (
        *("IntraProcessRendezvous", "Rendezvous", "RendezvousKey", "TransferArgs"),
    ),
    "graphmill.runtime.resource_mgr": ("ResourceMgr",),
    "graphmill.runtime.step_runner": ("StepRunner",),
    "graphmill.runtime.transport": ("Transport",),
    "graphmill.runtime.variables": ("Ref", "ResourceHandle", "Variable"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"graphmill.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        from graphmill.errors import suggest

        number = ".".join(map(str, VERSION))
        near = suggest(name, __all__) if not name.startswith("_") else ""
        raise AttributeError(f"graphmill.spi {number} has no {name!r}{near}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
