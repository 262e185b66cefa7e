"""The kernels of a cluster's nodes while it is traced: made for it, called with its values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import OpError
from graphmill.lowering.bind_node import bind_node
from graphmill.registry import Provenance
from graphmill.runtime.op_kernel_context import OpKernelContext
from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.errors import KernelFault, NotTraceable
from graphmill_plugins.jit.tracing.elements import is_known

if TYPE_CHECKING:
    from graphmill.graph.node import Node
    from graphmill.lowering.effects_policy import EffectsPolicy
    from graphmill.plugin.host import Host
    from graphmill.runtime.kernel import KernelDef, OpKernel


class TracedKernels:
    """The kernels of one trace, by node and backend.

    Args:
        host: whose kernels.
        policy: which effects they may have.
    """

    def __init__(self, host: Host, policy: EffectsPolicy) -> None:
        self._host = host
        self._policy = policy
        self._kernels: dict[tuple[Node, str], OpKernel] = {}

    def get(self, node: Node, backend: str = "jax") -> OpKernel:
        """Return the kernel of a node, the same one each time.

        Raises:
            NotTraceable: there is none, or it refuses the node.
        """
        found = self._kernels.get((node, backend))
        if found is None:
            found = self._kernels[node, backend] = self._bind(node, backend)
        return found

    def _bind(self, node: Node, backend: str) -> OpKernel:
        kernels = self._host.kernels
        choice = kernels.try_find(node.op_def, node.attrs, "CPU", (backend,))
        if choice is None:
            raise NotTraceable(f"it has no kernel for {backend}")
        namespace = np if backend == "numpy" else jax_module().numpy
        try:
            return bind_node(node, choice, self._policy, namespace)
        except OpError as error:
            raise NotTraceable(error.message) from error


def called(kernel: OpKernel, inputs: list[Any]) -> Any:
    """Call a kernel; what it raises while it is traced is a reason, not an error of the step."""
    errors = jax_module().errors
    try:
        with np.errstate(all="ignore"):
            return kernel.compute(*inputs)
    except NotTraceable:
        raise
    except errors.JAXTypeError as error:  # it asked for the value of what is traced
        raise NotTraceable(f"its kernel needs values: {_first_line(error)}") from error
    except Exception as error:  # the interpreter tells what is wrong with the values, if anything
        raise _failure(kernel, error) from error


def _failure(kernel: OpKernel, error: Exception) -> NotTraceable:
    """Return what a kernel's exception means: the values are wrong, or a plugin's code is."""
    text = f"{type(error).__name__}: {_first_line(error)}"
    owner = kernel.owner
    if isinstance(error, OpError) or not isinstance(owner, Provenance) or owner.is_builtin:
        return NotTraceable(text)
    source = kernel.definition.source
    return KernelFault(
        f"the kernel {source} of {owner} failed while it was traced: {text}", (owner, source)
    )


def called_with(kernel: OpKernel, inputs: list[Any], kept: Any) -> tuple[Any, Any]:
    """Call a kernel whose variable has the value `kept`; return the result and the new value."""
    variable = kernel.variable
    if variable is None:
        raise NotTraceable(f"the kernel {kernel.definition.source} has no variable")
    variable.value = kept
    context = OpKernelContext(None, kernel)  # type: ignore[arg-type]
    result = called(kernel, [context, *inputs])
    return result, variable.value


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def outputs_of(node: Node, result: Any) -> tuple[Any, ...]:
    """Return what a kernel gave as a tuple of its node's outputs."""
    count = node.num_outputs
    if count == 1:
        return (result,)
    return tuple(result) if count else ()


def unknown_static(node: Node, definition: KernelDef, inputs: list[Any]) -> list[int]:
    """Return the positions of the inputs that its kernel wants to know, and that are traced."""
    if not definition.static:
        return []
    ranges = node.op_def.input_ranges(node.attrs)
    return [
        position
        for name in definition.static
        if name in ranges
        for position in range(*ranges[name])
        if not is_known(inputs[position])
    ]
