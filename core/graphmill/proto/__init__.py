"""TensorFlow's messages: wire-compatible, in a proto package of our own.

Each `<name>.proto` in this folder declares the same fields, numbers, labels and defaults as the
TensorFlow file of that name, in proto package `graphmill` instead of `tensorflow`. Serialized
messages of one are valid for the other, and both sets can be imported in one process, in either
order, because they share no file name and no full message name.

Names are resolved lazily, on first use, so importing this package is cheap:

    from graphmill import proto
    graph_def = proto.GraphDef.FromString(data)      # imports graph_pb2 and its dependencies
    options = proto.config_pb2.RunOptions()          # a module by its name

The package has top-level messages and enums by name. Enum values (`DT_FLOAT`) and nested messages
are in the modules and classes. `tools/make_protos.py` generates the `*_pb2.py` and `*_pb2.pyi`
files and `_index.py`.

In `google.protobuf.Any` fields, the type URL has TensorFlow's message name
(`type.googleapis.com/tensorflow.X`), so `Any.Unpack` into our class fails; parse `any.value` with
`FromString` instead.
"""

from __future__ import annotations

from importlib import import_module

from graphmill.proto._index import MODULE_OF

TYPE_CHECKING = False  # stands for `typing.TYPE_CHECKING`, without the cost of the import
if TYPE_CHECKING:
    from graphmill.proto._index import *  # noqa: F403


def _resolve(name: str) -> object:
    """Import the message or enum `name`, or the generated module of that name."""
    if name in MODULE_OF:
        value: object = getattr(import_module(f"{__name__}.{MODULE_OF[name]}"), name)
    elif name.endswith("_pb2"):
        value = _module(name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # later uses do not call this function
    return value


def _module(name: str) -> object:
    """Import the generated module `name` of this package."""
    path = f"{__name__}.{name}"
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:  # the module exists, but a module that it imports does not
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


if not TYPE_CHECKING:  # hidden from type checkers, so that they report misspelt names
    __getattr__ = _resolve


def __dir__() -> list[str]:
    """List the module's names, including those that are not imported yet."""
    return sorted({*globals(), *MODULE_OF, *MODULE_OF.values()})
