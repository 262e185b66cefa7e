"""Create and call the kernels and lowerings of a cluster's nodes during tracing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import OpError
from graphmill.spi import KernelDef, OpKernelConstruction, OpKernelContext
from graphmill.spi.compilers import KernelChoice, wanted_attrs
from graphmill.spi.passes import bind_node
from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.errors import KernelFault, NotTraceable, WrongOutputsError
from graphmill_plugins.jit.ir.lowering_choices import BACKEND, LoweringChoice
from graphmill_plugins.jit.tracing.static_values import is_static
from graphmill_plugins.jit.tracing.traced_outputs import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Check, Node, OpKernel
    from graphmill.spi.passes import EffectsPolicy
    from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices

_NUMPY = "numpy"
_RAISES_BY_VALUE = (
    ". If it reads them only to raise an error, declare the condition with check= and the "
    "computation without it with lowering="
)
_PREDICATE_IS_TRACED = (
    ". A predicate of check= is traced: it must return one bool of xp, and cannot use `if`, `and`, "
    "`or`, `int()` or `bool()` on its inputs"
)


class TracedKernels:
    """The kernels and lowerings of one trace, created once for each node.

    Args:
        choices: returns the kernel or lowering of a node.
        policy: the effects that they may have.

    Attributes:
        suppliers: the suppliers of the bound kernels, with versions.
    """

    def __init__(self, choices: LoweringChoices, policy: EffectsPolicy) -> None:
        self._choices = choices
        self._policy = policy
        self._found: dict[Node, LoweringChoice] = {}
        self._kernels: dict[tuple[Node, str], OpKernel] = {}
        self.suppliers: set[str] = set()
        self._functions: dict[Node, OpKernel] = {}

    def choice(self, node: Node) -> LoweringChoice:
        """Return the lowering choice of a node; repeated calls return the same object.

        Raises:
            NotTraceable: it has none.
        """
        chosen = self._found.get(node)
        if chosen is None:
            kernel_choice = self._choices.of(node, refuses=False)
            if isinstance(kernel_choice, str):
                raise NotTraceable(kernel_choice)
            chosen = self._found[node] = kernel_choice
        return chosen

    def get(self, node: Node, backend: str = BACKEND) -> OpKernel:
        """Return the kernel of a node; repeated calls return the same object.

        Raises:
            NotTraceable: there is none, or it rejects the node.
        """
        kernel = self._kernels.get((node, backend))
        if kernel is None:
            choice = self._choices.kernel_on(node, backend)
            if choice is None:
                raise NotTraceable(f"it has no kernel for {backend}")
            namespace = np if backend == _NUMPY else jax_module().numpy
            kernel = self._bind(node, choice, namespace)
            self._kernels[node, backend] = kernel
        return kernel

    def owner_of(self, node: Node) -> str:
        """Return the supplier of a node's kernel for messages, as " of PLUGIN"."""
        choice = self._choices.kernel_choice(node)
        return "" if choice is None or choice.owner is None else f" of {choice.owner}"

    def lowered(self, node: Node, inputs: list[Any]) -> Any:
        """Call the function of a node's lowering with its inputs."""
        function = self._functions.get(node)
        if function is None:
            function = self._functions[node] = self._function(node)
        return called(function, inputs)

    def origin_of_lowering(self, node: Node) -> Origin:
        """Return the origin of the outputs of a node's lowering."""
        kernel = self._functions[node]
        return Origin(f"lowering {kernel.definition.source}", kernel.owner, is_for_compiler=True)

    def _function(self, node: Node) -> OpKernel:
        lowering = self.choice(node).lowering
        assert lowering is not None
        assert lowering.function is not None
        choice = self._choices.kernel_choice(node)
        effects = frozenset() if choice is None else choice.definition.effects
        definition = KernelDef((node.op,), lowering.function, stateful=True, effects=effects)
        owner = None if choice is None else choice.owner
        return self._bind(node, KernelChoice(definition, owner, BACKEND, ()), None)

    def holds(self, check: Check, node: Node, values: list[Any]) -> Any:
        """Return whether a check holds for a node's inputs or results."""
        xp = jax_module().numpy
        choice = self._choices.kernel_choice(node)
        owner = None if choice is None else choice.owner
        if check.of == "inputs":
            definition = KernelDef((node.op,), check.predicate)
            kernel = self._bind(node, KernelChoice(definition, owner, BACKEND, ()), xp)
            return called(kernel, values, _PREDICATE_IS_TRACED)
        construction = OpKernelConstruction(node.name, node.op_def, node.attrs, None, xp)
        attrs = wanted_attrs(check.predicate, construction)
        predicate = partial(check.predicate, xp, **attrs)
        return attempted(predicate, values, "a check", owner, _PREDICATE_IS_TRACED)

    def _bind(self, node: Node, choice: KernelChoice, namespace: Any) -> OpKernel:
        self.suppliers.add(str(choice.owner))
        try:
            return bind_node(node, choice, self._policy, namespace)
        except OpError as error:
            raise NotTraceable(error.message) from error


def called(kernel: OpKernel, inputs: list[Any], advice: str = _RAISES_BY_VALUE) -> Any:
    """Call a kernel; an exception during tracing is a reason not to compile, not an error."""
    return attempted(kernel.compute, inputs, kernel.definition.source, kernel.owner, advice)


def attempted(
    compute: Callable[..., Any],
    inputs: list[Any],
    source: str,
    owner: object,
    advice: str = _RAISES_BY_VALUE,
) -> Any:
    """Call a kernel or lowering; see `called`.

    Args:
        compute: the function to call.
        inputs: its arguments.
        source: where it is defined.
        owner: the plugin that supplied it.
        advice: what to do if it reads the values of tracers.

    Raises:
        NotTraceable: it raised an exception; the interpreter reports invalid values.
    """
    errors = jax_module().errors
    try:
        with np.errstate(all="ignore"):
            return compute(*inputs)
    except (NotTraceable, WrongOutputsError):
        raise
    except errors.JAXTypeError as error:  # it read the value of a tracer
        text = f"{source} needs the values of traced arrays: {_first_line(error)}"
        raise NotTraceable(text.rstrip(".") + advice) from error
    except Exception as error:  # the interpreter reports what is wrong with the values, if anything
        raise _failure(error, source, owner) from error


def _failure(error: Exception, source: str, owner: object) -> NotTraceable:
    """Return the error for a kernel's exception: a refusal, or a possible fault of the kernel.

    It is a fault only if the interpreter can compute the same inputs: incompatible shapes, for
    example, raise there, too.
    """
    text = f"{type(error).__name__}: {_first_line(error)}"
    if isinstance(error, OpError):
        return NotTraceable(text)
    supplied = "" if owner is None else f" of {owner}"
    return KernelFault(f"{source}{supplied} failed while it was traced: {text}", (owner, source))


def called_with(kernel: OpKernel, inputs: list[Any], value: Any) -> tuple[Any, Any]:
    """Call a kernel whose variable has the given value; return the result and the new value."""
    variable = kernel.variable
    if variable is None:
        raise NotTraceable(f"the kernel {kernel.definition.source} has no variable")
    variable.value = value
    context = OpKernelContext(None, kernel)  # type: ignore[arg-type]
    result = called(kernel, [context, *inputs])
    return result, variable.value


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def missing_static(node: Node, definition: KernelDef, inputs: list[Any]) -> list[int]:
    """Return the positions of traced inputs that the kernel requires to be static."""
    if not definition.static:
        return []
    return [p for p in positions_of(node, definition.static) if not is_static(inputs[p])]


def positions_of(node: Node, names: tuple[str, ...]) -> list[int]:
    """Return the positions of the inputs with given names in the `OpDef`."""
    ranges = node.op_def.input_ranges(node.attrs)
    return [p for name in names if name in ranges for p in range(*ranges[name])]
