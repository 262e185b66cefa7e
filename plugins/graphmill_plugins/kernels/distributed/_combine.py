"""Combine the tensors of a group's members, in the order of ranks."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InternalError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi.kernels import CollectiveRequest

    Array = np.ndarray[Any, Any]
    Results = Sequence[Array]
    Requests = Sequence[CollectiveRequest]

_MERGES: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
}


def reduction(merge_op: str, final_op: str) -> Callable[[Requests], Results]:
    """Return a function that reduces all tensors to one, which each member receives.

    Raises:
        InvalidArgumentError: `merge_op` or `final_op` is unknown.
    """
    merge, is_mean = _merge(merge_op), _is_mean(final_op)

    def combine(requests: Requests) -> Results:
        whole = _reduced(merge, is_mean, requests)
        return [whole, *(whole.copy() for _ in requests[1:])]

    return combine


def scattered_reduction(merge_op: str, final_op: str) -> Callable[[Requests], Results]:
    """Return a function that reduces all tensors and gives each member its rows of the result.

    Raises:
        InvalidArgumentError: `merge_op` or `final_op` is unknown.
    """
    merge, is_mean = _merge(merge_op), _is_mean(final_op)

    def combine(requests: Requests) -> Results:
        _check_rows(requests, exactly=False)
        whole = _reduced(merge, is_mean, requests)
        return [part.copy() for part in np.split(whole, len(requests))]

    return combine


def gather(requests: Requests) -> Results:
    """Concatenate the tensors of all members along the first axis."""
    whole = np.concatenate([np.atleast_1d(_value(request)) for request in requests])
    return [whole, *(whole.copy() for _ in requests[1:])]


def exchange(requests: Requests) -> Results:
    """Send row `i` of each member to the member of rank `i`.

    Raises:
        InvalidArgumentError: the number of rows differs from the number of members.
    """
    _check_rows(requests, exactly=True)
    return list(np.stack([_value(request) for request in requests], axis=1))


def broadcast(requests: Requests) -> Results:
    """Send the tensor of the only sender to all members.

    Raises:
        InternalError: there is no sender, or more than one.
    """
    senders = [request for request in requests if request.value is not None]
    if len(senders) != 1:
        devices = ", ".join(request.device for request in senders) or "none"
        raise InternalError(f"{requests[0]}: one member must send, but the senders are: {devices}")
    sent = _value(senders[0])
    return [sent if request is senders[0] else sent.copy() for request in requests]


def _reduced(merge: Callable[[Array, Array], Array], is_mean: bool, requests: Requests) -> Array:
    values = [_value(request) for request in requests]
    with np.errstate(all="ignore"):
        merged = np.asarray(reduce(merge, values[1:], values[0]))
        if is_mean:
            merged = _divided(merged, len(values))
    return merged.copy() if merged is values[0] else merged


def _divided(value: Array, count: int) -> Array:
    """Divide as C++ does: integers round towards zero, and keep their type."""
    divisor = np.asarray(count, value.dtype)
    if value.dtype.kind != "i":
        return np.asarray(value / divisor)
    quotient = value // divisor
    return np.asarray(quotient + ((value < 0) & (quotient * divisor != value)), value.dtype)


def _check_rows(requests: Requests, *, exactly: bool) -> None:
    shape = _value(requests[0]).shape
    count = len(requests)
    if not shape or shape[0] % count or (exactly and shape[0] != count):
        expected = f"{count} rows" if exactly else f"a multiple of {count} rows"
        raise InvalidArgumentError(
            f"{requests[0]}: a tensor of shape {list(shape)} cannot be divided among the "
            f"{count} members of the group; expected {expected}"
        )


def _value(request: CollectiveRequest) -> Array:
    value = request.value
    if value is None:
        raise InternalError(f"{request}: the member has provided no tensor")
    return value


def _merge(name: str) -> Callable[[Array, Array], Array]:
    if name not in _MERGES:
        raise InvalidArgumentError(
            f"merge_op must be one of {', '.join(_MERGES)}, got {name!r}; see the attr of the op"
        )
    return _MERGES[name]


def _is_mean(name: str) -> bool:
    if name not in ("Id", "Div"):
        raise InvalidArgumentError(f"final_op must be one of Id, Div, got {name!r}")
    return name == "Div"
