"""Bind kernels to the nodes of a session: the only place that does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.runtime.kernels.kernel import OpKernel, OpKernelConstruction, bind

if TYPE_CHECKING:
    from graphmill.graph.node import Node
    from graphmill.lowering.functions.function_runtime import FunctionLibraryRuntime
    from graphmill.lowering.policies.effects_policy import EffectsPolicy
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.kernels.kernel_registry import KernelChoice
    from graphmill.runtime.kernels.op_segment import StatefulKernels
    from graphmill.typing import ArrayNamespace


def bind_node(
    node: Node,
    choice: KernelChoice,
    policy: EffectsPolicy,
    namespace: ArrayNamespace,
    device: Device | None = None,
    functions: FunctionLibraryRuntime | None = None,
    segment: StatefulKernels | None = None,
) -> OpKernel:
    """Bind a kernel to a node if the session's policy permits its effects.

    Whoever runs nodes of a session binds them here, interpreter, compiler and graph passes alike,
    so that no node runs that the policy has not seen.

    Args:
        node: the node.
        choice: the kernel.
        policy: the session's.
        namespace: the array namespace that the kernel computes with.
        device: where it runs; None where there is no device, as in a trace.
        functions: the function library runtime that it may call.
        segment: the stateful kernels among which it is kept; None for one that is not kept.

    Raises:
        PermissionDeniedError: op or kernel may have an effect that the session forbids.
        OpError: the kernel refuses the node.
    """
    policy.check_node(node, choice.definition, device)
    construction = OpKernelConstruction(
        node.name, node.op_def, node.attrs, device, namespace, functions, segment
    )
    return bind(choice.definition, construction, choice.owner)
