"""`NodeTrace`: the trace context that a lowering receives for its node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.errors import NeedsStatic, NotTraceable
from graphmill_plugins.jit.ir.traced_variable import TracedVariable
from graphmill_plugins.jit.tracing.static_values import GUARD, is_static
from graphmill_plugins.jit.tracing.traced_kernels import missing_static

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphmill.spi import FuncAttr, Node
    from graphmill_plugins.jit.tracing.trace import Tracer
    from graphmill_plugins.jit.tracing.values import State


class NodeTrace:
    """The `graphmill.spi.TraceContext` of one node, with methods for internal lowerings.

    Attributes:
        xp: `jax.numpy`.
        inputs: the node's inputs, with lists flattened.
        tracer: the tracer of the cluster.
        node: the node.
        state: the tracer's state, which is read and written by keys and handles.
    """

    __slots__ = ("inputs", "node", "state", "tracer", "xp")

    def __init__(self, tracer: Tracer, node: Node, inputs: list[Any], state: State) -> None:
        self.xp = jax_module().numpy
        self.tracer = tracer
        self.node = node
        self.inputs = inputs
        self.state = state

    @property
    def node_name(self) -> str:
        """Name of the node."""
        return self.node.name

    @property
    def op(self) -> str:
        """Type of its op."""
        return self.node.op

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Its attrs in canonical form."""
        return self.node.attrs

    @staticmethod
    def is_static(value: Any) -> bool:
        """Return whether a value is static."""
        return is_static(value)

    def require(self, holds: Any) -> None:
        """Add a condition to the guard; if it fails, the interpreter runs the step."""
        self.state[GUARD] = self.state[GUARD] & self.xp.all(holds)

    def read(self, variable: Any) -> Any:
        """Return the value of a variable.

        Raises:
            NotTraceable: it is not a variable.
        """
        return self.state[_checked(variable)]

    def write(self, variable: Any, value: Any) -> None:
        """Set the value of a variable.

        Raises:
            NotTraceable: it is not a variable, or the value has another dtype.
        """
        current = self.read(variable)
        if value.dtype != current.dtype:
            raise NotTraceable(f"it writes {value.dtype} to a variable of {current.dtype}")
        self.state[variable] = value

    def call(self, function: FuncAttr, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Trace a function of the graph's library; return its results."""
        return self.tracer.call_function(function, list(inputs), self.state)

    # For lowerings of the compiler itself

    def kernel(self) -> Any:
        """Return the kernel's outputs for the node's inputs: one, or a tuple of several."""
        outputs = self.tracer.compute(self.node, self.inputs, self.state)
        return outputs[0] if len(outputs) == 1 else outputs

    def kernel_function(self) -> Callable[..., Any]:
        """Return the node's kernel as a function."""
        return self.tracer.kernel_of(self.node).compute

    def has_static_inputs(self) -> bool:
        """Return whether all inputs that the kernel requires to be static are static."""
        definition = self.tracer.kernel_of(self.node).definition
        return not missing_static(self.node, definition, self.inputs)

    def check_static(self, positions: Sequence[int], text: str) -> None:
        """Reject traced inputs that could be static if the cluster's arguments were.

        Raises:
            NeedsStatic: an input is traced. In the next attempt the arguments from which it is
                computed are static.
        """
        traced = [position for position in positions if not is_static(self.inputs[position])]
        if traced and self.tracer.is_main(self.node.graph):
            raise NeedsStatic(text, self.node, traced)


def _checked(variable: Any) -> TracedVariable:
    if not isinstance(variable, TracedVariable):
        raise NotTraceable("it does not read a variable")
    return variable
