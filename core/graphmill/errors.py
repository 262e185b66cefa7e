"""Status errors: one class for each canonical code, with the node, op, device and plugin at fault.

Codes and class names are TensorFlow's (`tensorflow/python/framework/errors_impl.py`), so that
`except errors.InvalidArgumentError` in a user's program keeps its meaning.
"""

from __future__ import annotations

import heapq
from functools import partial
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

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
        code: the canonical status code (an int; `error_code` is the same for TensorFlow's users).
        message: what happened, without the location that `str(error)` appends.
        node: name of the node at fault, or None.
        op: in our own code the op type; for errors of a session's run the node as in TensorFlow.
        device: name of the device that ran the node, or None.
        plugin: name of the plugin that supplied the failing part, or None.
        node_def: the `NodeDef` of the node at fault, or None.
    """

    code: ClassVar[int] = UNKNOWN

    def __init__(
        self,
        message: str,
        *,
        node: str | None = None,
        op: str | None = None,
        device: str | None = None,
        plugin: str | None = None,
        node_def: Any = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.node = node
        self.op = op
        self.device = device
        self.plugin = plugin
        self._node_def = node_def
        self.is_derived = False

    @property
    def error_code(self) -> int:
        """The canonical status code, under TensorFlow's name."""
        return self.code

    @property
    def node_def(self) -> Any:
        """The `NodeDef` of the node at fault, or None; built on first use."""
        if callable(self._node_def):
            self._node_def = self._node_def()
        return self._node_def

    def locate(
        self,
        *,
        node: str | None = None,
        op: str | None = None,
        device: str | None = None,
        plugin: str | None = None,
        node_def: Any = None,
    ) -> OpError:
        """Fill in what is not known yet about the place of the error; return self.

        The innermost place wins, so an error that crosses a function call keeps the node that
        raised it. `node_def` may be a callable that makes the message when it is asked for.
        """
        if self.node is None:
            self.node = node
            self.op = self.op or op
            self._node_def = self._node_def or node_def
        self.device = self.device or device
        self.plugin = self.plugin or plugin
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # The maker of a NodeDef holds a whole graph; what is sent elsewhere is its message.
        state = {**self.__dict__, "_node_def": self.node_def}
        return _remade, (type(self), self.message), state

    def __str__(self) -> str:
        if self.node is None:
            return self.message
        parts = [f"op {self.op}" if self.op else "", f"device {self.device}" if self.device else ""]
        if self.plugin:
            parts.append(f"plugin {self.plugin}")
        place = ", ".join(part for part in parts if part)
        return f"{self.message}\n\t [[{{{{node {self.node}}}}}]]" + (f" ({place})" if place else "")


def _remade(cls: type[OpError], message: str) -> OpError:
    """Return an error that was pickled; subclasses may have constructors of their own."""
    error = cls.__new__(cls, message)
    error.message = message
    return error


class CancelledError(OpError):
    """The operation was cancelled, usually by the caller or by another error of the step."""

    code = CANCELLED


class UnknownError(OpError):
    """An error without a better class."""

    code = UNKNOWN


class InvalidArgumentError(OpError):
    """The caller gave something that can never be right, whatever the state of the system."""

    code = INVALID_ARGUMENT


class DeadlineExceededError(OpError):
    """The time allowed for the operation ran out before it was done."""

    code = DEADLINE_EXCEEDED


class NotFoundError(OpError):
    """Something asked for by name does not exist: a file, an op, a kernel, a tensor."""

    code = NOT_FOUND


class AlreadyExistsError(OpError):
    """Something that was to be created exists already."""

    code = ALREADY_EXISTS


class PermissionDeniedError(OpError):
    """The caller may not do this, for example read a file outside the model's folder."""

    code = PERMISSION_DENIED


class ResourceExhaustedError(OpError):
    """Memory, disk, call depth or another bounded thing ran out."""

    code = RESOURCE_EXHAUSTED


class FailedPreconditionError(OpError):
    """The system is not in the state that the operation needs: an uninitialised variable, say."""

    code = FAILED_PRECONDITION


class AbortedError(OpError):
    """The operation was given up, typically because of a conflict with another one."""

    code = ABORTED


class OutOfRangeError(OpError):
    """The operation went past the end of a valid range, as a reader past the last record."""

    code = OUT_OF_RANGE


class UnimplementedError(OpError):
    """The operation is not implemented here; the message says why."""

    code = UNIMPLEMENTED


class InternalError(OpError):
    """An invariant of the system is broken: a fault in graphmill or in a plugin."""

    code = INTERNAL


class UnavailableError(OpError):
    """The service cannot be reached now; a later try may succeed."""

    code = UNAVAILABLE


class DataLossError(OpError):
    """Data is lost or damaged beyond repair: a bad checksum, a truncated file."""

    code = DATA_LOSS


class UnauthenticatedError(OpError):
    """The caller has no valid credentials for the operation."""

    code = UNAUTHENTICATED


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
    """Return the class of a canonical status code (`UnknownError` for a code that is none)."""
    return _CLASSES.get(code, UnknownError)


def suggest(name: str, candidates: Iterable[str], count: int = 3) -> str:
    """Return "; did you mean 'a' or 'b'?" for near matches of `name`, else an empty string."""
    import difflib  # here: most programs make no such mistake

    pool = list(candidates)
    folded = {candidate.lower(): candidate for candidate in reversed(pool)}
    wanted = name.lower()
    compared: Iterable[str] = folded
    if len(folded) > _MOST_COMPARED:
        compared = heapq.nlargest(_MOST_COMPARED, folded, key=partial(_alike_at_the_ends, wanted))
    near = difflib.get_close_matches(wanted, compared, n=count, cutoff=0.6)
    if not near:
        return ""
    return "; did you mean " + " or ".join(repr(folded[match]) for match in near) + "?"


_MOST_COMPARED = 500  # a graph may have 100,000 names, and comparing one takes 50 microseconds


def _alike_at_the_ends(one: str, other: str) -> int:
    """Return how many characters two names share at their beginnings and ends."""
    shortest = min(len(one), len(other))
    same = next((i for i in range(shortest) if one[i] != other[i]), shortest)
    left = shortest - same
    return same + next((i for i in range(left) if one[-1 - i] != other[-1 - i]), left)
