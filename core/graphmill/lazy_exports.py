"""Public names of a package that are imported on first use."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from graphmill.spi._lazy import lazy_attributes

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi._lazy import Attributes


def lazy_exports(package: str, names_of_modules: dict[str, tuple[str, ...]]) -> Attributes:
    """Return `__getattr__` and `__dir__` of a package that imports its public names on first use.

    A name that the package lacks is an AttributeError with its counterpart, if the name is
    TensorFlow's, or with similar names.

    Args:
        package: the name of the package, whose `__all__` lists its public names.
        names_of_modules: the names that each module defines; if two define one, the first one wins.
    """
    namespace = vars(sys.modules[package])

    def refuse(name: str) -> Callable[[str, str], Any]:
        from graphmill.errors import suggest
        from graphmill.tensorflow_names import hint

        more = hint(name, namespace["__path__"][0]) or suggest(name, namespace["__all__"])
        raise AttributeError(f"module {package!r} has no attribute {name!r}{more}")

    sources = {
        name: (module, name)
        for module, names in reversed(names_of_modules.items())
        for name in names
    }
    return lazy_attributes(package, sources, namespace["__all__"], refuse)
