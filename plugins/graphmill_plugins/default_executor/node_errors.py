"""What kernels raise, as status errors that name node, op, device, plugin, iteration (S12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InternalError, InvalidArgumentError, OpError, ResourceExhaustedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill_plugins.default_executor.graph_view import NodeItem

# What NumPy and kernels raise for bad values; any other class is a fault of the kernel itself.
_BAD_VALUE: Final = (ValueError, IndexError, OverflowError, ZeroDivisionError)


def typed(item: NodeItem | None, error: BaseException) -> OpError:
    """Return `error` as a status error; the original is its cause."""
    if isinstance(error, OpError):
        return error
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, MemoryError):
        made: OpError = ResourceExhaustedError(f"out of memory: {text}")
    elif isinstance(error, RecursionError):
        made = ResourceExhaustedError(f"functions call each other too deeply: {text}")
    elif isinstance(error, _BAD_VALUE):
        made = InvalidArgumentError(str(error) or text)
    else:
        kernel = item.kernel if item is not None else None
        source = kernel.definition.source if kernel is not None else "executor"
        made = InternalError(f"the kernel {source} failed: {text}")
    made.__cause__ = error
    return made


def located(item: NodeItem | None, iteration: Any, error: OpError, device: str) -> OpError:
    """Add the place to an error that has none yet; return it."""
    if item is None:
        return error
    if error.node is None and iteration.name:
        error.message += f" (in iteration {iteration.name})"
    kernel = item.kernel
    owner = kernel.owner if kernel is not None else None
    builtin = owner is None or getattr(owner, "is_builtin", False)
    return error.locate(
        node=item.node.name,
        op=item.node.op,
        device=device,
        plugin=None if builtin else str(getattr(owner, "plugin", owner)),
        node_def=_node_def_maker(item),
    )


def _node_def_maker(item: NodeItem) -> Callable[[], Any]:
    def make() -> Any:
        from graphmill.graph.import_export import node_to_node_def

        return node_to_node_def(item.node)

    return make
