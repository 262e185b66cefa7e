"""Register the pytree classes that plugins declare with JAX, for tracing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.spi.compilers import declared_pytrees
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins._jax import jax_module

if TYPE_CHECKING:
    from graphmill.spi.compilers import PytreeDef

_lock: Final = fork_safe_lock()
_registered: Final[set[type]] = set()


def register_pytrees() -> None:
    """Register all declared classes with JAX that are not registered yet.

    Threads: any may call.
    """
    with _lock:
        for declared in declared_pytrees():
            if declared.kind not in _registered:
                _register(declared)
                _registered.add(declared.kind)


def _register(declared: PytreeDef) -> None:
    tree_util = jax_module().tree_util
    try:
        tree_util.register_pytree_node(
            declared.kind,
            lambda value: (declared.parts(value), declared.fixed(value)),
            declared.build,
        )
    except ValueError as error:  # the plugin may also have registered it with JAX
        if "uplicate" not in str(error):
            raise


def is_pytree(value: Any) -> bool:
    """Return whether JAX treats a value as a container."""
    return value is not None and not jax_module().tree_util.all_leaves([value])


def leaves_of(value: Any) -> list[Any]:
    """Return the leaves of a pytree; any other value is its only leaf."""
    leaves: list[Any] = jax_module().tree_util.tree_leaves(value)
    return leaves
