"""The plugin interface: everything that plugins may import, with a version of its own.

    from graphmill.spi import Device, DeviceFactory, hookimpl

This module has what most plugins need. Its submodules have the rest, by concept: `graphs`,
`passes`, `gradients`, `kernels`, `executors`, `compilers`, `files`, `checkpoints`, `models`,
`protos`, `cluster` and `process`.
The built-in plugins import nothing else from graphmill except `graphmill.errors`,
`graphmill.dtypes` and the functions of `graphmill.ops`.

Names are imported lazily, on first use, so a plugin module that only needs `hookimpl` imports
little else. Only the names listed here are stable for plugins; `graphmill` itself is for programs
that run graphs, and `graphmill.testing` for tests.

A plugin module declares the versions that it works with:

    GRAPHMILL_SPI = ">=1.0,<2"

A host does not use a plugin that requires another version, and warns in one line.
docs/explanation/stability.md defines `VERSION`: the first number changes when something is removed
or changes its meaning, the second when something is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.plugin.spi_version import VERSION as VERSION

if TYPE_CHECKING:
    from graphmill import dtypes as dtypes
    from graphmill import errors as errors
    from graphmill.distribution import install_command as install_command
    from graphmill.explain.compilation import COMPILED as COMPILED
    from graphmill.explain.compilation import STRAIGHT_LINE as STRAIGHT_LINE
    from graphmill.explain.compilation import ClusterRecord as ClusterRecord
    from graphmill.explain.compilation import Compilation as Compilation
    from graphmill.explain.compilation import CompileRecord as CompileRecord
    from graphmill.explain.compilation import OutsideNote as OutsideNote
    from graphmill.explain.compilation import SignatureRecord as SignatureRecord
    from graphmill.explain.compilation import compilation_of as compilation_of
    from graphmill.graph.algorithms import topological_order as topological_order
    from graphmill.graph.graph import Graph as Graph
    from graphmill.graph.node import CONTROL_SLOT as CONTROL_SLOT
    from graphmill.graph.node import Edge as Edge
    from graphmill.graph.node import Node as Node
    from graphmill.ops.attrs.attr_types import NO_DEFAULT as NO_DEFAULT
    from graphmill.ops.attrs.attr_types import FuncAttr as FuncAttr
    from graphmill.ops.attrs.attr_types import TensorAttr as TensorAttr
    from graphmill.ops.definition.define import op as op
    from graphmill.ops.definition.op_def import ArgDef as ArgDef
    from graphmill.ops.definition.op_def import AttrDef as AttrDef
    from graphmill.ops.definition.op_def import OpDef as OpDef
    from graphmill.ops.definition.op_functions import op_function as op_function
    from graphmill.ops.definition.op_traits import EFFECTS as EFFECTS
    from graphmill.ops.definition.op_traits import Arithmetic as Arithmetic
    from graphmill.ops.definition.op_traits import Boundary as Boundary
    from graphmill.ops.definition.op_traits import CallKind as CallKind
    from graphmill.ops.definition.op_traits import ControlFlow as ControlFlow
    from graphmill.ops.definition.op_traits import FunctionCall as FunctionCall
    from graphmill.ops.definition.op_traits import HalfPrecision as HalfPrecision
    from graphmill.ops.definition.op_traits import OpTraits as OpTraits
    from graphmill.ops.definition.op_traits import Randomness as Randomness
    from graphmill.ops.definition.op_traits import ResourceUse as ResourceUse
    from graphmill.ops.definition.op_traits import RowUse as RowUse
    from graphmill.ops.definition.op_traits import Source as Source
    from graphmill.ops.inference.output_bounds import OutputBound as OutputBound
    from graphmill.ops.inference.output_bounds import bounded_by as bounded_by
    from graphmill.ops.inference.shape_inference import ShapeContext as ShapeContext
    from graphmill.ops.inference.tensor_shape import TensorShape as TensorShape
    from graphmill.ops.inference.value_inference import ValueContext as ValueContext
    from graphmill.plugin.gradient_declaration import gradient as gradient
    from graphmill.plugin.host import Host as Host
    from graphmill.plugin.markers import hookimpl as hookimpl
    from graphmill.plugin.pass_registry import PHASES as PHASES
    from graphmill.plugin.pass_registry import has_ops as has_ops
    from graphmill.plugin.registrars import GradientRegistrar as GradientRegistrar
    from graphmill.plugin.registrars import KernelRegistrar as KernelRegistrar
    from graphmill.plugin.registrars import LoweringRegistrar as LoweringRegistrar
    from graphmill.plugin.registrars import OpRegistrar as OpRegistrar
    from graphmill.plugin.registrars import PassRegistrar as PassRegistrar
    from graphmill.plugin.registrars import Registrar as Registrar
    from graphmill.plugin.settings import plugin_settings as plugin_settings
    from graphmill.plugin.step_observers import StepInfo as StepInfo
    from graphmill.registry import Provenance as Provenance
    from graphmill.runtime.dead import DEAD as DEAD
    from graphmill.runtime.devices.allocator import Allocator as Allocator
    from graphmill.runtime.devices.allocator import AllocatorStats as AllocatorStats
    from graphmill.runtime.devices.allocator import LimitedAllocator as LimitedAllocator
    from graphmill.runtime.devices.device import Device as Device
    from graphmill.runtime.devices.device import DeviceAttributes as DeviceAttributes
    from graphmill.runtime.devices.device import DeviceFactory as DeviceFactory
    from graphmill.runtime.devices.transport import Transport as Transport
    from graphmill.runtime.executor import Executor as Executor
    from graphmill.runtime.executor import ExecutorArgs as ExecutorArgs
    from graphmill.runtime.executor import ExecutorFactory as ExecutorFactory
    from graphmill.runtime.executor import LocalExecutorParams as LocalExecutorParams
    from graphmill.runtime.kernels.kernel import KernelDef as KernelDef
    from graphmill.runtime.kernels.kernel import KernelTable as KernelTable
    from graphmill.runtime.kernels.kernel import kernel as kernel
    from graphmill.runtime.kernels.kernel import kernels_of as kernels_of
    from graphmill.runtime.kernels.kernel_errors import as_status as as_status
    from graphmill.runtime.kernels.kernel_errors import at_node as at_node
    from graphmill.runtime.kernels.kernel_errors import step_cancelled as step_cancelled
    from graphmill.runtime.kernels.kernel_errors import with_reason as with_reason
    from graphmill.runtime.kernels.kernel_io import check_output as check_output
    from graphmill.runtime.kernels.kernel_io import check_outputs as check_outputs
    from graphmill.runtime.kernels.kernel_io import checked_dtypes as checked_dtypes
    from graphmill.runtime.kernels.kernel_io import read_refs as read_refs
    from graphmill.runtime.kernels.kernel_io import refs_to_read as refs_to_read
    from graphmill.runtime.kernels.lowering import Check as Check
    from graphmill.runtime.kernels.lowering import Lowering as Lowering
    from graphmill.runtime.kernels.lowering import LoweringTable as LoweringTable
    from graphmill.runtime.kernels.lowering import NotTraceable as NotTraceable
    from graphmill.runtime.kernels.lowering import TraceContext as TraceContext
    from graphmill.runtime.kernels.lowering import lowering as lowering
    from graphmill.runtime.kernels.op_kernel import OpKernel as OpKernel
    from graphmill.runtime.kernels.op_kernel import OpKernelConstruction as OpKernelConstruction
    from graphmill.runtime.kernels.op_kernel import bind as bind
    from graphmill.runtime.kernels.op_kernel_context import OpKernelContext as OpKernelContext
    from graphmill.runtime.pytree import pytree as pytree
    from graphmill.runtime.rendezvous import IntraProcessRendezvous as IntraProcessRendezvous
    from graphmill.runtime.rendezvous import Rendezvous as Rendezvous
    from graphmill.runtime.rendezvous import RendezvousKey as RendezvousKey
    from graphmill.runtime.rendezvous import TransferArgs as TransferArgs
    from graphmill.runtime.resources.resource_mgr import ResourceMgr as ResourceMgr
    from graphmill.runtime.resources.variables import Ref as Ref
    from graphmill.runtime.resources.variables import ResourceHandle as ResourceHandle
    from graphmill.runtime.resources.variables import Variable as Variable
    from graphmill.runtime.steps.call_frame import CallFrame as CallFrame
    from graphmill.runtime.steps.cancellation import Cancellation as Cancellation
    from graphmill.runtime.steps.cancellation import CancellationManager as CancellationManager
    from graphmill.runtime.steps.step_runner import StepRunner as StepRunner
    from graphmill.runtime.variants.variant_codec import VariantCodec as VariantCodec
    from graphmill.runtime.variants.variant_codec import VariantData as VariantData
    from graphmill.runtime.variants.variant_codec import VariantRegistry as VariantRegistry
    from graphmill.typing import ArrayNamespace as ArrayNamespace
    from graphmill.typing import Shape as Shape
    from graphmill.typing import Value as Value
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.distribution": "install_command",
            "graphmill.dtypes": "",
            "graphmill.errors": "",
            "graphmill.explain.compilation": (
                "COMPILED STRAIGHT_LINE ClusterRecord Compilation CompileRecord OutsideNote "
                "SignatureRecord compilation_of"
            ),
            "graphmill.graph.algorithms": "topological_order",
            "graphmill.graph.graph": "Graph",
            "graphmill.graph.node": "CONTROL_SLOT Edge Node",
            "graphmill.ops.attrs.attr_types": "NO_DEFAULT FuncAttr TensorAttr",
            "graphmill.ops.definition.define": "op",
            "graphmill.ops.definition.op_def": "ArgDef AttrDef OpDef",
            "graphmill.ops.definition.op_functions": "op_function",
            "graphmill.ops.definition.op_traits": (
                "EFFECTS Arithmetic Boundary CallKind ControlFlow FunctionCall HalfPrecision "
                "OpTraits Randomness ResourceUse RowUse Source"
            ),
            "graphmill.ops.inference.output_bounds": "OutputBound bounded_by",
            "graphmill.ops.inference.shape_inference": "ShapeContext",
            "graphmill.ops.inference.tensor_shape": "TensorShape",
            "graphmill.ops.inference.value_inference": "ValueContext",
            "graphmill.plugin.gradient_declaration": "gradient",
            "graphmill.plugin.host": "Host",
            "graphmill.plugin.markers": "hookimpl",
            "graphmill.plugin.pass_registry": "PHASES has_ops",
            "graphmill.plugin.registrars": (
                "GradientRegistrar KernelRegistrar LoweringRegistrar OpRegistrar PassRegistrar "
                "Registrar"
            ),
            "graphmill.plugin.settings": "plugin_settings",
            "graphmill.plugin.step_observers": "StepInfo",
            "graphmill.registry": "Provenance",
            "graphmill.runtime.devices.allocator": "Allocator AllocatorStats LimitedAllocator",
            "graphmill.runtime.steps.call_frame": "CallFrame",
            "graphmill.runtime.steps.cancellation": "Cancellation CancellationManager",
            "graphmill.runtime.dead": "DEAD",
            "graphmill.runtime.devices.device": "Device DeviceAttributes DeviceFactory",
            "graphmill.runtime.executor": (
                "Executor ExecutorArgs ExecutorFactory LocalExecutorParams"
            ),
            "graphmill.runtime.kernels.kernel": ("KernelDef KernelTable kernel kernels_of"),
            "graphmill.runtime.kernels.op_kernel": "OpKernel OpKernelConstruction bind",
            "graphmill.runtime.kernels.kernel_errors": (
                "as_status at_node step_cancelled with_reason"
            ),
            "graphmill.runtime.kernels.kernel_io": (
                "check_output check_outputs checked_dtypes read_refs refs_to_read"
            ),
            "graphmill.runtime.kernels.lowering": (
                "Check Lowering LoweringTable NotTraceable TraceContext lowering"
            ),
            "graphmill.runtime.kernels.op_kernel_context": "OpKernelContext",
            "graphmill.runtime.pytree": "pytree",
            "graphmill.runtime.rendezvous": (
                "IntraProcessRendezvous Rendezvous RendezvousKey TransferArgs"
            ),
            "graphmill.runtime.resources.resource_mgr": "ResourceMgr",
            "graphmill.runtime.steps.step_runner": "StepRunner",
            "graphmill.runtime.devices.transport": "Transport",
            "graphmill.runtime.resources.variables": "Ref ResourceHandle Variable",
            "graphmill.runtime.variants.variant_codec": "VariantCodec VariantData VariantRegistry",
            "graphmill.typing": "ArrayNamespace Shape Value",
        },
        own=("VERSION",),
    )
