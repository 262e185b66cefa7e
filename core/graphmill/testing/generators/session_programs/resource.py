"""A resource in a graph: its nodes, its steps, and a model of which steps wait."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphmill.testing.generators.dataflow_graphs import Chooser
    from graphmill.testing.generators.session_programs.program import Step


class Outcome(Enum):
    """The outcome of a step: it succeeds, may fail, waits, or is undefined."""

    OK = "ok"
    MAY_FAIL = "may fail"
    WAITS = "waits"
    UNDEFINED = "undefined"


class Model(ABC):
    """The state of a resource in one session."""

    @abstractmethod
    def apply(self, event: tuple[Any, ...]) -> Outcome:
        """Return the outcome of an event; one that waits or is undefined changes nothing."""

    @abstractmethod
    def copy(self) -> Model:
        """Return an independent copy."""


class Stateless(Model):
    """The model of a resource whose steps never wait."""

    def apply(self, event: tuple[Any, ...]) -> Outcome:
        """Return the outcome that the event states."""
        return Outcome.OK if event and event[0] == "ok" else Outcome.MAY_FAIL

    def copy(self) -> Model:
        """Return the model itself, which has no state."""
        return self


class Resource(ABC):
    """A resource of a graph; its parameters are drawn when it is created.

    Args:
        name: the prefix of the names of its nodes.
        chooser: draws its parameters.

    Attributes:
        can_time_out: whether a step that waits can be interrupted. TensorFlow's staging areas
            block a thread, which nothing but another step releases.
    """

    can_time_out = True

    def __init__(self, name: str, chooser: Chooser) -> None:
        del chooser  # for subclasses
        self.name = name

    @abstractmethod
    def nodes(self) -> list[str]:
        """Return its nodes, as in op cases."""

    def placeholders(self) -> dict[str, str]:
        """Return the dtypes of its placeholders."""
        return {}

    def functions(self) -> list[str]:
        """Return the functions that its nodes use."""
        return []

    @abstractmethod
    def draw(self, chooser: Chooser) -> Step:
        """Draw a step."""

    def start(self, chooser: Chooser) -> Step | None:
        """Draw a step that initializes the resource; None if it needs none."""
        del chooser
        return None

    def model(self) -> Model:
        """Return the model of a new session."""
        return Stateless()


def pick(chooser: Chooser, items: Any) -> Any:
    """Choose one of the items."""
    return items[chooser.integer(0, len(items) - 1)]


def chance(chooser: Chooser, one_in: int) -> bool:
    """Return True with a probability of 1 in `one_in`."""
    return chooser.integer(1, one_in) == 1
