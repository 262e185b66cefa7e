"""`preparation`: compute the values that a program derives from constants alone, once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.programs.hoist import bytes_of
from graphmill_plugins.jit.programs.numpy_form import numpy_form
from graphmill_plugins.jit.programs.program_cache import compile_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill_plugins.jit.programs.hoist import Hoisted
    from graphmill_plugins.jit.programs.memory import HostMemory
    from graphmill_plugins.jit.programs.program_cache import ProgramCache

_HOST: Final = "cpu"  # as JAX names it


def preparation(
    parts: Hoisted, constants: Sequence[Any], memory: HostMemory, cache: ProgramCache | None
) -> Callable[..., Any]:
    """Return a function of the constants whose results are the first arguments of a program.

    In host memory NumPy computes them, if it has all the operations. Otherwise they are compiled.

    Args:
        parts: the program, without the operations on constants alone.
        constants: their values.
        memory: the memory that the program computes in.
        cache: the persistent cache; None for none.

    Raises:
        ResourceExhaustedError: the results are larger than the memory budget.
    """
    if not parts.moved:
        return partial(_as_arrays, parts.prepare)
    compute = numpy_form(parts.early) if memory.platform == _HOST else None
    if compute is not None:
        memory.check_bytes(sum(map(bytes_of, parts.early.jaxpr.outvars)))
        return partial(_as_arrays, compute)
    lowered = jax_module().jit(parts.prepare, keep_unused=True).lower(*constants)
    program = compile_program(lowered, {}, cache).call
    memory.check_program(program)
    prepare: Callable[..., Any] = program
    return prepare


def _as_arrays(compute: Callable[..., Any], *constants: Any) -> Any:
    """Return computed or selected constants as arrays of JAX."""
    return jax_module().device_put(compute(*constants))
