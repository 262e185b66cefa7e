"""Export a function with `jax.export`, which makes programs that other processes can run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import UnimplementedError
from graphmill.spi import install_command
from graphmill_plugins._jax import jax_module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def exported_program(
    function: Callable[..., Any], arguments: Sequence[Any], platforms: Sequence[str]
) -> Any:
    """Export a function with `jax.export`, for arguments of these shapes.

    Raises:
        UnimplementedError: JAX cannot export it.
    """
    jax = jax_module()
    import jax.export as jax_export

    with jax.enable_x64(True):
        try:
            return jax_export.export(jax.jit(function), platforms=tuple(platforms))(*arguments)
        except (NotImplementedError, ValueError) as error:
            raise UnimplementedError(f"JAX cannot export this program: {error}") from error


def serialized(exported: Any, vjp_order: int = 0) -> bytes:
    """Return the serialized form of an exported program.

    Args:
        exported: the program.
        vjp_order: how often it can be differentiated after it is loaded.

    Raises:
        UnimplementedError: `flatbuffers`, with which JAX serializes programs, is not installed.
    """
    try:
        return bytes(exported.serialize(vjp_order=vjp_order))
    except ImportError as error:
        raise UnimplementedError(
            "JAX serializes programs with flatbuffers, which is not installed; "
            f"run: {install_command('export')}"
        ) from error
