"""Public names of a package that are imported on first use."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def lazy_exports(
    package: str, homes: dict[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that imports its public names on first use.

    A name that the package lacks is an AttributeError with its counterpart, if the name is
    TensorFlow's, or with similar names.

    Args:
        package: the name of the package, whose `__all__` lists its public names.
        homes: the names that each module defines; where two have a name, the first counts.
    """
    home_of = {name: home for home, names in reversed(homes.items()) for name in names}
    namespace = vars(sys.modules[package])

    def get_attribute(name: str) -> Any:
        if name not in home_of:
            from graphmill.errors import suggest
            from graphmill.tensorflow_names import hint

            more = hint(name, namespace["__path__"][0]) or suggest(name, namespace["__all__"])
            raise AttributeError(f"module {package!r} has no attribute {name!r}{more}")
        value = getattr(importlib.import_module(home_of[name]), name)
        namespace[name] = value
        return value

    def names() -> list[str]:
        return sorted({*namespace, *namespace["__all__"]})

    return get_attribute, names
