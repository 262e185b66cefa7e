"""Look up function bodies for the compiler, after graph passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from graphmill.spi.graphs import instantiate_function
from graphmill.spi.passes import body_as_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Device, FuncAttr
    from graphmill.spi.compilers import FunctionLibraryRuntime
    from graphmill.spi.graphs import FunctionBody, FunctionLibrary, OpRegistry
    from graphmill.spi.passes import PassOptions

BodyProvider: TypeAlias = "Callable[[FuncAttr, FunctionLibrary], FunctionBody]"


def bodies_on(device: Device | None, options: PassOptions) -> BodyProvider:
    """Return a provider of bodies as they run on a device; `device` is None if it is unknown."""

    def body(function: FuncAttr, library: FunctionLibrary) -> FunctionBody:
        return body_as_run(function, library, device, options)

    return body


def plain_bodies(ops: OpRegistry) -> BodyProvider:
    """Return a provider of the unmodified bodies of the library, for use without a session."""

    def body(function: FuncAttr, library: FunctionLibrary) -> FunctionBody:
        return instantiate_function(function.name, function.attrs, library, ops)

    return body


def bodies_of(functions: FunctionLibraryRuntime) -> BodyProvider:
    """Return a provider of bodies as a function library runtime runs them."""

    def body(function: FuncAttr, library: FunctionLibrary) -> FunctionBody:
        stored_body = library.body(function.name)
        if stored_body is not None:
            return stored_body.copy(library)
        return functions.body(function.name, function.attrs)

    return body
