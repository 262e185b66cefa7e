"""The outputs that a kernel or lowering returns while it is traced, checked against its op."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.dtypes import as_dtype
from graphmill_plugins.jit.ir.errors import KernelFault, NotTraceable
from graphmill_plugins.jit.ir.handles import HANDLE_TYPES, VARIANT
from graphmill_plugins.jit.ir.lowering_choices import BACKEND
from graphmill_plugins.jit.ir.pytrees import is_array
from graphmill_plugins.jit.tracing.pytrees import is_pytree, leaves_of
from graphmill_plugins.jit.tracing.values import is_array_value

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.spi import KernelDef, Node, OpKernel


class Origin(NamedTuple):
    """The code that returned outputs.

    Attributes:
        name: what and where it is, as `kernel module.function`.
        owner: the plugin that supplied it; None if that is unknown.
        is_for_compiler: whether it was written for the compiler, so that wrong outputs are a fault
            of the plugin.
    """

    name: str
    owner: object = None
    is_for_compiler: bool = False

    @classmethod
    def of_kernel(cls, kernel: OpKernel) -> Origin:
        """Return the origin of a kernel's outputs."""
        definition: KernelDef = kernel.definition
        is_for_compiler = definition.backend == BACKEND
        return cls(f"kernel {definition.source}", kernel.owner, is_for_compiler)

    def wrong(self, text: str) -> NotTraceable:
        """Return the error for outputs that the op does not have.

        Args:
            text: what is returned and what was expected.
        """
        supplied = "" if self.owner is None else f" of {self.owner}"
        message = f"its {self.name}{supplied} returns {text}"
        return KernelFault(message, self) if self.is_for_compiler else NotTraceable(message)


def outputs_of(node: Node, result: Any, origin: Origin) -> tuple[Any, ...]:
    """Return the result of a kernel or lowering as a tuple of its node's outputs.

    Raises:
        NotTraceable: it returned another number of outputs.
    """
    count = node.num_outputs
    is_several = gives_several(node, result)
    if count == 1 and not is_several:
        return (result,)
    if not count:
        return ()
    if count == 1 or not is_several or len(result) != count:
        actual = f"{len(result)} outputs" if is_several else f"a {type(result).__name__}"
        raise origin.wrong(f"{actual}, expected {count} outputs")
    return tuple(result)


def gives_several(node: Node, result: Any) -> bool:
    """Return whether a result is a sequence of outputs, not one variant that is a tuple."""
    is_variant = node.num_outputs == 1 and node.output_types[0].base_dtype.name == VARIANT
    return isinstance(result, (tuple, list)) and not is_variant


def check_type(value: Any, expected: DType, origin: Origin) -> None:
    """Check that an output is an array of the expected dtype, or a variant of arrays.

    Raises:
        NotTraceable: it is not.
    """
    if expected.base_dtype.name in HANDLE_TYPES:
        if is_pytree(value) and not is_array_value(value):
            kinds = sorted({type(one).__name__ for one in leaves_of(value) if not is_array(one)})
            raise NotTraceable(
                f"it returns a {type(value).__name__} with leaves that are not arrays, but "
                f"{', '.join(kinds)}"
            )
        return
    if not hasattr(value, "dtype"):
        raise origin.wrong(f"a {type(value).__name__}, expected a tensor")
    if value.dtype != expected.base_dtype.as_numpy_dtype:
        raise origin.wrong(f"{as_dtype(value.dtype).name}, expected {expected.name}")
