"""`CallFrame`: the arguments and results of one run of a graph or function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.typing import Value


class CallFrame:
    """The values that `_Arg` nodes read and `_Retval` nodes write.

    Attributes:
        args: one value for each `_Arg` index.
        retvals: one slot for each `_Retval` index; `UNSET` until the node ran.
    """

    __slots__ = ("args", "retvals")

    UNSET = object()

    def __init__(self, args: Sequence[Value], num_retvals: int) -> None:
        self.args = args
        self.retvals: list[Value] = [self.UNSET] * num_retvals

    def get_arg(self, index: int) -> Value:
        """Return argument `index`.

        Raises:
            InternalError: the caller passed fewer arguments.
        """
        try:
            return self.args[index]
        except IndexError:
            raise InternalError(
                f"argument {index} is missing; the call passed {len(self.args)}"
            ) from None

    def set_retval(self, index: int, value: Value) -> None:
        """Set result `index`."""
        self.retvals[index] = value
