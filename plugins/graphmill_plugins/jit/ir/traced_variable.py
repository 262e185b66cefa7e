"""`TracedVariable`: represents a variable during tracing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TracedVariable:
    """A variable during tracing: a handle, and the key of its value in the state.

    Attributes:
        slot: its index among the variables of the cluster.
        is_ref: whether it is a reference; otherwise it is the handle of a resource.
        name: its name, for messages.
    """

    slot: int
    is_ref: bool = False
    name: str = ""
