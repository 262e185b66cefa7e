"""Prepare a step for a master: typed feeds, deduplicated fetches, and the response."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InternalError
from graphmill.spi.protos import proto

from ..wire.tensor_messages import NamedTensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Value
    from graphmill.spi.cluster import Signature

    from .client_graph import ClientGraph


class StepPlan:
    """A prepared signature of a step.

    Attributes:
        feeds, targets: names.
        fetches: names, without duplicates.
    """

    def __init__(self, signature: Signature, graph: ClientGraph) -> None:
        self.feeds, self._fetches, self.targets = signature
        self.fetches = tuple(dict.fromkeys(self._fetches))
        self._types = [graph.feed(name) for name in self.feeds]
        graph.check(self.fetches, self.targets)

    def tensors(self, values: Sequence[Any]) -> list[NamedTensor]:
        """Return the tensors to feed.

        Raises:
            InvalidArgumentError: a value does not fit its tensor.
        """
        return [
            NamedTensor(name, convert(value), dtype)
            for name, (dtype, convert), value in zip(self.feeds, self._types, values, strict=True)
        ]

    def in_order(self, results: dict[str, Value]) -> list[Value]:
        """Return the values of all fetches, owned by the caller."""
        return [_owned(results[name]) for name in self._fetches]


def step_request(
    handle: str, fetches: Sequence[str], targets: Sequence[str], options: proto.RunOptions | None
) -> proto.RunStepRequest:
    """Return the request of a step, without its feeds."""
    return proto.RunStepRequest(
        session_handle=handle,
        fetch=fetches,
        target=targets,
        options=proto.RunOptions() if options is None else options,
        store_errors_in_response_body=True,
        request_id=new_request_id(),
    )


def results_by_name(fetches: Sequence[str], tensors: Sequence[NamedTensor]) -> dict[str, Value]:
    """Return the values of the fetches of a step.

    Raises:
        InternalError: the master sent others than these.
    """
    results = {tensor.name: tensor.value for tensor in tensors}
    if results.keys() != set(fetches):
        raise InternalError(
            f"the master sent the tensors {sorted(results)} but {sorted(set(fetches))} were fetched"
        )
    return results


def _owned(value: Value) -> Value:
    """Copy a value: an array of a response is a view of all its bytes."""
    if isinstance(value, np.ndarray):
        return value.copy() if value.ndim else value[()]
    return value


def new_request_id() -> int:
    """Return a unique id for a request; a repeated request keeps its id."""
    return secrets.randbits(62) + 1
