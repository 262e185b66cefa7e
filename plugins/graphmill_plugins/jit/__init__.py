"""Compile graphs that run often: clusters, functional control flow and tiers.

The passes rewrite a graph that has run a few times; a background thread builds it again while steps
continue with the old one:

1. Before the graph is partitioned, nodes of several devices that share the host's memory move to
   one device (`rewrites`).
2. Idioms are replaced by cheaper ops: sums of one-hot vectors by counts, segment ops with constant
   ids by ops that know their row counts, and accidental hits by a matrix (`idioms`).
3. Loops and conditionals become functions (`functionalize`).
4. Nodes that combine very many inputs become several (`rewrites`).
5. Each group of connected nodes that a compiler can trace becomes one node, a cluster
   (`clustering`).

The kernel of such a node (`cluster_kernel`) first runs generated Python code (`straight`). For each
signature of its inputs it is traced (`tracing`) and compiled by XLA (`programs`) in the background.
A state machine decides which form serves a signature (`tiers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import hookimpl

if TYPE_CHECKING:
    from graphmill.spi import (
        Graph,
        KernelRegistrar,
        LoweringRegistrar,
        OpRegistrar,
        PassRegistrar,
        Registrar,
    )
    from graphmill.spi.passes import PassOptions

_PHASE = "HOT"
GATHER_PASS = "jit_gather"
FUNCTIONALIZE_PASS = "jit_functionalize"
AGGREGATES_PASS = "jit_aggregates"
CLUSTER_PASS = "jit_clusters"


@hookimpl
def graphmill_register_ops(ops: OpRegistrar) -> None:
    """Register the ops of clusters."""
    from graphmill_plugins.jit.idioms.multi_hot_op import MULTI_HOT
    from graphmill_plugins.jit.idioms.sampled_softmax_mask_op import ACCIDENTAL_HITS
    from graphmill_plugins.jit.idioms.segment_rows_op import SEGMENT_ROWS
    from graphmill_plugins.jit.ir.cluster_op import CLUSTER, STRAIGHT_LINE

    for op_def in (CLUSTER, STRAIGHT_LINE, MULTI_HOT, SEGMENT_ROWS, ACCIDENTAL_HITS):
        ops.add(op_def)


@hookimpl
def graphmill_register_kernels(kernels: KernelRegistrar) -> None:
    """Register the kernels of clusters."""
    kernels.add_module(f"{__name__}.cluster_kernel", ["_Cluster"])
    kernels.add_module(f"{__name__}.straight.straight_kernel", ["_StraightLine"])


@hookimpl
def graphmill_register_lowerings(lowerings: LoweringRegistrar) -> None:
    """Register the lowerings that use internals of the compiler."""
    from graphmill_plugins.jit.lowerings import MODULES

    for module, ops in MODULES.items():
        lowerings.add_module(f"{__name__}.lowerings.{module}", ops.split())


@hookimpl
def graphmill_register_exporters(exporters: Registrar[object]) -> None:
    """Register the exporters."""
    exporters.add("jax", f"{__name__}.export.jax_function:to_jax")
    exporters.add("saved_model", "graphmill.export.saved_model_export:to_saved_model")
    exporters.add("onnx", f"{__name__}.export.onnx.exporter:to_onnx")
    exporters.add("stablehlo", f"{__name__}.export.stablehlo:to_stablehlo")


@hookimpl
def graphmill_register_conversions(target: str, conversions: Registrar[object]) -> None:
    """Register the conversions of TensorFlow's ops to ONNX."""
    if target == "onnx":
        from graphmill_plugins.jit.export.onnx import register

        register(conversions)


@hookimpl
def graphmill_register_passes(passes: PassRegistrar) -> None:
    """Register the passes."""
    from graphmill_plugins.jit.idioms import register_idioms

    passes.add(
        GATHER_PASS,
        f"{__name__}.rewrites.merge_host_devices:gather_on_host",
        phase="HOT_PLACEMENT",
        applies=_has_several_devices,
    )
    passes.add(
        FUNCTIONALIZE_PASS,
        f"{__name__}.functionalize:functionalize_hot",
        phase=_PHASE,
        order=10,
        applies=_has_control_flow,
    )
    register_idioms(passes)
    passes.add(
        AGGREGATES_PASS,
        f"{__name__}.rewrites.divide_aggregates:divide_aggregates",
        phase=_PHASE,
        order=15,
        applies=_has_aggregates,
    )
    passes.add(
        CLUSTER_PASS, f"{__name__}.clustering.clusters:form_clusters", phase=_PHASE, order=20
    )


def _has_several_devices(_graph: Graph, options: PassOptions) -> bool:
    return len(options.devices) > 1


def _has_control_flow(graph: Graph, _options: PassOptions) -> bool:
    return any(node.op_def.traits.is_control_flow for node in graph.nodes)


def _has_aggregates(graph: Graph, _options: PassOptions) -> bool:
    return any(node.op_def.is_aggregate for node in graph.nodes)
