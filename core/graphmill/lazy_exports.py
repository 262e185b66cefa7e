"""Public names of a package that are imported on first use."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Attributes = tuple[Callable[[str], Any], Callable[[], list[str]]]
    """`__getattr__` and `__dir__` of a module."""


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


def lazy_attributes(
    module: str,
    sources: Mapping[str, tuple[str, str]],
    listed: Iterable[str],
    find_other: Callable[[str], Callable[[str, str], Any]],
) -> Attributes:
    """Return `__getattr__` and `__dir__` of a module that imports names on first use.

    Args:
        module: the name of the module, which is being imported.
        sources: for each name its module and its name there; "" for the module itself.
        listed: its public names.
        find_other: returns a function that resolves another name, or raises AttributeError. The
            function is called with `module` and the name, by `__getattr__` for its `stacklevel`.
    """
    namespace = vars(sys.modules[module])

    def get_attribute(name: str) -> Any:
        if name not in sources:
            return find_other(name)(module, name)
        defining, attribute = sources[name]
        source = importlib.import_module(defining)
        value = namespace[name] = getattr(source, attribute) if attribute else source
        return value

    def names() -> list[str]:
        return sorted({*namespace, *listed})

    return get_attribute, names
