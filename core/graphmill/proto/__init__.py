"""TensorFlow's messages: wire compatible, under a proto package of our own.

Each `<name>.proto` in this folder states the same fields, numbers, labels and defaults as the
TensorFlow file of that name, in proto package `graphmill` instead of `tensorflow`. Bytes travel
freely between the two, and both sets can be imported in one process, in either order, because
no file name and no full message name is shared.

Names are resolved when they are first used, so importing this package costs next to nothing:

    from graphmill import proto
    graph_def = proto.GraphDef.FromString(data)      # imports graph_pb2 and what that needs
    options = proto.config_pb2.RunOptions()          # a module by its name

Top-level messages and enums are found by name. Enum values (`DT_FLOAT`) and nested messages are
in the modules and classes. The `*_pb2.py` and `*_pb2.pyi` files and `_index.py` are generated
by `tools/make_protos.py`.

`google.protobuf.Any` fields stay as they are: a type URL keeps TensorFlow's message name
(`type.googleapis.com/tensorflow.X`), so `Any.Unpack` into our class of that name says no; parse
`any.value` with `FromString` instead.
"""

from __future__ import annotations

from importlib import import_module

from graphmill.proto._index import MODULE_OF

TYPE_CHECKING = False  # what `typing` calls so, without the cost of importing it
if TYPE_CHECKING:
    from graphmill.proto._index import *  # noqa: F403


def _resolve(name: str) -> object:
    """Import the module that has the message or enum `name` (or is called so)."""
    if name in MODULE_OF:
        value: object = getattr(import_module(f"{__name__}.{MODULE_OF[name]}"), name)
    elif name.endswith("_pb2"):
        value = _module(name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # the next use finds it without coming here
    return value


def _module(name: str) -> object:
    """Import the generated module `name` of this package."""
    path = f"{__name__}.{name}"
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:  # the module is there; something that it needs is not
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


if not TYPE_CHECKING:  # hidden there, so that a misspelt name is an error to type checkers
    __getattr__ = _resolve


def __dir__() -> list[str]:
    """List the lazy names beside those that are already there."""
    return sorted({*globals(), *MODULE_OF, *MODULE_OF.values()})
