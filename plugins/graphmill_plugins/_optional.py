"""Import packages that `graphmill` requires and `graphmill-lite` does not: JAX and SciPy."""

from __future__ import annotations

import importlib
from typing import Any, Final

from graphmill.errors import UnimplementedError
from graphmill.spi import install_command

_PRODUCTS: Final = {"jax": "JAX", "jaxlib": "JAX", "scipy": "SciPy"}
_EXTRAS: Final = {"jax": "jax", "jaxlib": "jax", "scipy": "scipy"}


def import_optional(name: str) -> Any:
    """Import a module of JAX or SciPy.

    Args:
        name: the module's full name, for example "scipy.special".

    Raises:
        UnimplementedError: the package is not installed. A module that an installed package lacks
            is a `ModuleNotFoundError`, as usual.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name not in (package, "jaxlib"):
            raise
        raise UnimplementedError(
            f"{_PRODUCTS[package]} is needed here, and is not installed: "
            f"{install_command(_EXTRAS[package])}"
        ) from error
