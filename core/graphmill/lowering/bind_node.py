"""Bind kernels to the nodes of a session; all code that runs nodes binds them here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill.lowering.shape_sources import ShapeSources, with_default_budget
from graphmill.runtime.kernels.op_kernel import OpKernel, OpKernelConstruction, bind

if TYPE_CHECKING:
    from graphmill.graph.node import Node
    from graphmill.lowering.functions.function_runtime import FunctionLibraryRuntime
    from graphmill.lowering.policies.effects_policy import EffectsPolicy
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.kernels.kernel_choice import KernelChoice
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
    shapes: ShapeSources | None = None,
) -> OpKernel:
    """Bind a kernel to a node if the session's policy permits its effects.

    Interpreter, compilers and graph passes all bind nodes here, so no node runs unless the policy
    has checked it.

    Args:
        node: the node.
        choice: the kernel.
        policy: the session's effects policy.
        namespace: the array namespace that the kernel computes with.
        device: the device that runs it; None if there is none, as in a trace.
        functions: the function library runtime that it may call.
        segment: the stateful kernels to which it belongs; None for a kernel that is not cached.
        shapes: the known relations of shapes in its graph.

    Raises:
        PermissionDeniedError: the op or kernel may have an effect that the session forbids.
        OpError: the kernel rejects the node.
    """
    policy.check_node(node, choice.definition, device)
    construction = OpKernelConstruction(
        node.name,
        node.op_def,
        node.attrs,
        device,
        namespace,
        functions,
        segment,
        policy.broker_of(node, choice.definition),
    )
    if not policy.memory_limit:
        plain = bind(choice.definition, construction, choice.owner)
        is_traced = device is None and namespace is not np  # nothing is allocated in a trace
        if not is_traced and (shapes or ShapeSources()).may_grow(node):
            plain.compute = with_default_budget(node, choice.definition, namespace, plain.compute)
        return plain
    from graphmill.lowering.output_budget import with_budget  # few sessions set a limit
    from graphmill.memory_budget import with_memory_limit

    limit = policy.memory_limit
    limited = with_memory_limit(limit, bind)  # a kernel may allocate when it is made, too
    kernel: OpKernel = limited(choice.definition, construction, choice.owner)
    kernel.compute = with_budget(node, choice.definition, kernel.compute, limit)
    return kernel
