"""Status errors: a class per canonical code, with the failing node, op, device and plugin.

Codes and class names are TensorFlow's (`tensorflow/python/framework/errors_impl.py`), so
`except errors.InvalidArgumentError` in a user's program keeps its meaning.
"""

from __future__ import annotations

import heapq
from functools import partial
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from graphmill.graph.node import Node

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16


class OpError(Exception):
    """Base of all status errors.

    Attributes:
        code: the canonical status code, an int; `error_code` is the same under TensorFlow's name.
        message: what happened, without the location that `str(error)` appends.
        node: name of the failing node, or None.
        op: the operation of the session's graph that failed, as in TensorFlow: the failing node, or
            the one that called the function in which it lies. None where no session knows the
            operation: while a graph is built, in kernels, in another process, after unpickling.
        op_type: the op type of the failing node, such as `"MatMul"`, or None.
        device: name of the device that ran the node, or None.
        plugin: name of the plugin that supplied the failing part, or None.
        node_def: the `NodeDef` of the failing node, or None.
        defined_at: where the program made the failing node (file, line and function), or None.
    """

    code: ClassVar[int] = UNKNOWN
    defined_at: str | None = None
    caller: str | None = None
    """Name of the outermost node whose function call failed; None outside of calls."""
    _op: Any = None  # an operation, or a function that finds it

    def __init__(
        self,
        message: Any,
        *more: Any,
        node: str | None = None,
        op_type: str | None = None,
        device: str | None = None,
        plugin: str | None = None,
        node_def: Any = None,
        op: Any = None,
    ) -> None:
        """Set the message and the location.

        Args:
            message: what happened; or TensorFlow's first positional argument, `node_def`.
            more: nothing; or TensorFlow's other positional arguments, `op` and `message`.
            node, op_type, device, plugin, node_def, op: see the attributes.

        Raises:
            TypeError: there are two positional arguments, or more than three.
        """
        if more:
            if len(more) != 2:
                raise TypeError(
                    f"{type(self).__name__}() takes message, or node_def, op and message; "
                    f"{1 + len(more)} positional arguments were given"
                )
            node_def, (op, message) = message, more
        super().__init__(message)
        self.message: str = message
        self.node = node
        self.op_type = op_type
        self.device = device
        self.plugin = plugin
        self._node_def = node_def
        self.is_derived = False
        if op is not None:
            self._take_op(op)

    @property
    def error_code(self) -> int:
        """The canonical status code, under TensorFlow's name."""
        return self.code

    @property
    def node_def(self) -> Any:
        """The `NodeDef` of the failing node, or None; built on first use."""
        if callable(self._node_def):
            self._node_def = self._node_def()
        return self._node_def

    @node_def.setter
    def node_def(self, node_def: Any) -> None:
        self._node_def = node_def

    @property
    def op(self) -> Node | None:
        """The operation of the session's graph that failed, or None; looked up on first use."""
        if callable(self._op):
            self._op = self._op()
        operation: Node | None = self._op
        return operation

    @op.setter
    def op(self, op: Any) -> None:
        self._op = None
        self._take_op(op)

    def _take_op(self, op: Any) -> None:
        """Set the operation, or a function that finds it; a string is the op type (deprecated)."""
        if not isinstance(op, str):
            self._op = op
            return
        from graphmill.deprecations import warn_renamed  # few programs are that old

        warn_renamed("the op type `op` of an OpError", "op_type", stacklevel=4)
        self.op_type = self.op_type or op

    def locate(
        self,
        *,
        node: str | None = None,
        op_type: str | None = None,
        device: str | None = None,
        plugin: str | None = None,
        node_def: Any = None,
        op: Any = None,
    ) -> OpError:
        """Fill in the missing parts of the error's location; return self.

        The innermost location wins, so an error that crosses a function call keeps the node that
        raised it; the outermost one becomes `caller`. `node_def` may be a callable that builds the
        `NodeDef` on first access. `op` is the old name of `op_type`.
        """
        if op is not None:
            self._take_op(op)
        if self.node is None:
            self.node = node
            self.op_type = self.op_type or op_type
            self._node_def = self._node_def or node_def
        elif node is not None and node != self.node:
            self.caller = node
        self.device = self.device or device
        self.plugin = self.plugin or plugin
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # An operation, and a callable `_node_def`, reference a whole graph.
        state = {**self.__dict__, "_node_def": self.node_def, "_op": None}
        return _remade, (type(self), self.message), state

    def __copy__(self) -> OpError:
        copied = _remade(type(self), self.message)
        copied.__dict__.update(self.__dict__)
        return copied

    def __str__(self) -> str:
        if self.node is None:
            return self.message
        parts = [
            f"op {self.op_type}" if self.op_type else "",
            f"device {self.device}" if self.device else "",
        ]
        if self.plugin:
            parts.append(f"plugin {self.plugin}")
        if self.defined_at:
            parts.append(f"defined at {self.defined_at}")
        location = ", ".join(part for part in parts if part)
        suffix = f" ({location})" if location else ""
        return f"{self.message}\n\t [[{{{{node {self.node}}}}}]]{suffix}"


def _remade(cls: type[OpError], message: str) -> OpError:
    """Create an error without calling `__init__`, whose signature subclasses may change."""
    error = cls.__new__(cls, message)
    error.message = message
    return error


class CancelledError(OpError):
    """The operation was cancelled, usually by the caller or by another error of the step."""

    code = CANCELLED


class UnknownError(OpError):
    """An error that fits no other class."""

    code = UNKNOWN


class InvalidArgumentError(OpError):
    """An argument is invalid, whatever the state of the system."""

    code = INVALID_ARGUMENT


class DeadlineExceededError(OpError):
    """The operation timed out."""

    code = DEADLINE_EXCEEDED


class NotFoundError(OpError):
    """A requested file, op, kernel, tensor or other object does not exist."""

    code = NOT_FOUND


class AlreadyExistsError(OpError):
    """The requested file, node or other object already exists."""

    code = ALREADY_EXISTS


class PermissionDeniedError(OpError):
    """The caller may not do this, for example read a file outside the model's folder."""

    code = PERMISSION_DENIED


class RefusedEffectError(PermissionDeniedError):
    """The rules under which a model runs do not allow an effect; the message says which one.

    Unlike other errors it is not ignored by datasets that skip elements with errors: they would
    hide what has to be allowed.
    """


class ResourceExhaustedError(OpError):
    """A limited resource ran out: memory, disk space, call depth."""

    code = RESOURCE_EXHAUSTED


class FailedPreconditionError(OpError):
    """The system is not in the state that the operation needs (e.g. an uninitialized variable)."""

    code = FAILED_PRECONDITION


class AbortedError(OpError):
    """The operation was aborted, typically because of a conflict with another one."""

    code = ABORTED


class OutOfRangeError(OpError):
    """The operation went past the end of a valid range, such as reading past the last record."""

    code = OUT_OF_RANGE


class UnimplementedError(OpError):
    """The operation is not implemented here; the message says why."""

    code = UNIMPLEMENTED


class InternalError(OpError):
    """An invariant is broken: a bug in graphmill or in a plugin."""

    code = INTERNAL


class UnavailableError(OpError):
    """The service cannot be reached now; a retry may succeed."""

    code = UNAVAILABLE


class DataLossError(OpError):
    """Data is lost or damaged beyond repair: a bad checksum, a truncated file."""

    code = DATA_LOSS


class UnauthenticatedError(OpError):
    """The caller has no valid credentials for the operation."""

    code = UNAUTHENTICATED


class InvalidValueError(InvalidArgumentError, TypeError, ValueError):
    """A value that a caller passed to a session or a graph is wrong: a feed, a fetch, a target.

    It is a built-in exception, too, because TensorFlow's Python layer raises `TypeError` or
    `ValueError` for such values before its runtime sees them.
    """


class UnknownNameError(NotFoundError, KeyError, TypeError, ValueError):
    """A tensor or operation that a caller named does not exist.

    TensorFlow's Python layer raises `ValueError` for a fetch, `TypeError` for a feed, `KeyError` in
    the methods of a graph.
    """


class EmptyGraphError(UnknownNameError, RuntimeError):
    """The graph of the session has no operations."""


class ClosedSessionError(CancelledError, RuntimeError):
    """The session was closed before the call."""


class FinalizedGraphError(FailedPreconditionError, RuntimeError):
    """The graph is finalized, so no node can be added."""


_CLASSES: dict[int, type[OpError]] = {
    cls.code: cls
    for cls in (
        CancelledError,
        UnknownError,
        InvalidArgumentError,
        DeadlineExceededError,
        NotFoundError,
        AlreadyExistsError,
        PermissionDeniedError,
        ResourceExhaustedError,
        FailedPreconditionError,
        AbortedError,
        OutOfRangeError,
        UnimplementedError,
        InternalError,
        UnavailableError,
        DataLossError,
        UnauthenticatedError,
    )
}


def error_class(code: int) -> type[OpError]:
    """Return the class of a canonical status code (`UnknownError` for any other code)."""
    return _CLASSES.get(code, UnknownError)


def suggest(name: str, candidates: Iterable[str], count: int = 3) -> str:
    """Return "; did you mean 'a' or 'b'?" for near matches of `name`, else an empty string.

    Candidates that are `name` in an outer scope (`scope/name`) come first.
    """
    import difflib  # imported lazily: most programs never get here

    pool = list(candidates)
    scoped = [candidate for candidate in pool if candidate.endswith(f"/{name}")][:count]
    if scoped:
        return "; did you mean " + " or ".join(map(repr, scoped)) + "?"
    length = len(name)
    folded = {c.lower(): c for c in reversed(pool) if _may_be_near(length, len(c))}
    lowered = name.lower()
    compared: Iterable[str] = folded
    if len(folded) > _MAX_COMPARED:
        compared = heapq.nlargest(_MAX_COMPARED, folded, key=partial(_shared_ends, lowered))
    near = difflib.get_close_matches(lowered, compared, n=count, cutoff=_CUTOFF)
    if not near:
        return ""
    return "; did you mean " + " or ".join(repr(folded[match]) for match in near) + "?"


def _may_be_near(length: int, other: int) -> bool:
    """Return whether names of these lengths can be near matches, by difflib's own bound.

    This is fast for the columns of a wide table.
    """
    return 2.0 * min(length, other) >= _CUTOFF * (length + other)


_CUTOFF = 0.6  # the similarity of near matches
_MAX_COMPARED = 500  # a graph may have 100,000 names, and difflib takes 50 µs for each


def _shared_ends(one: str, other: str) -> int:
    """Return the length of the common prefix and suffix of two names."""
    shortest = min(len(one), len(other))
    same = next((i for i in range(shortest) if one[i] != other[i]), shortest)
    left = shortest - same
    return same + next((i for i in range(left) if one[-1 - i] != other[-1 - i]), left)
