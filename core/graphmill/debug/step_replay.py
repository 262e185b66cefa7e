"""`Replay`: run a recorded step again, exactly, and compare it with the recording.

The feeds are those of the recording, and nodes with effects do not run: random numbers, and what a
node read from a variable, a queue or a file, come from the recording. All other nodes are computed,
so that a difference shows a node that computes something else here, such as on another machine.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.debug.debugger import Debugger
from graphmill.debug.recorded_graph import has_effects
from graphmill.debug.values import DEAD_VALUE
from graphmill.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from graphmill.graph.node_roles import is_argument
from graphmill.runtime.dead import DEAD
from graphmill.runtime.resources.variables import Ref

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.debug.recording import Event, Recording
    from graphmill.dtypes import DType
    from graphmill.graph.node import Node
    from graphmill.runtime.stepping import NodeInstance, SteppableRun
    from graphmill.session.session import Session


class ReplayDifference(NamedTuple):
    """An output of a node that differs from the recording.

    Attributes:
        node: the name of the node.
        iteration: its frames and iterations; "" outside of loops.
        output: the index of the output.
        recorded, replayed: both values as text.
    """

    node: str
    iteration: str
    output: int
    recorded: str
    replayed: str

    def __str__(self) -> str:
        where = f" in {self.iteration}" if self.iteration else ""
        return (
            f"{self.node}:{self.output}{where}: recorded {self.recorded}, replayed {self.replayed}"
        )


class Replay(Debugger):
    """Runs the step of a recording again, under the debugger.

        x = F.placeholder("float32", [2])
        recording = graphmill.debug.record(session, x * 2.0, {x: [1.0, 0.0]})
        with graphmill.debug.Replay(session, recording) as replay:
            replay.resume()
            print(replay.differences)  # []

    The session may be another one than that of the recording, and its variables need no values: it
    only has to have the same graph. Its state does not change.

    Args:
        session: a session in this process.
        recorded: the recording of an ordinary step; one that failed or waited is replayed up to
            there.

    Raises:
        InvalidArgumentError: the recording has no value of a feed.
        OpError: as for `Debugger`.

    Attributes:
        recorded: the recording that is replayed; `recording` is that of the replay.
        differences: what differs so far, in order.
        num_compared: how many outputs have been compared.
    """

    def __init__(self, session: Session, recorded: Recording) -> None:
        self.recorded = recorded
        self.differences: list[ReplayDifference] = []
        self.num_compared = 0
        self._events: dict[tuple[str, str], list[Event]] = defaultdict(list)
        for event in reversed(recorded.events):
            self._events[self._key(recorded, event)].append(event)
        feeds = {name: recorded_feed(recorded, name) for name in recorded.feeds}
        super().__init__(session, list(recorded.fetches), feeds, targets=recorded.targets)

    def outputs_of(self, run: SteppableRun, instance: NodeInstance) -> Sequence[Any] | None:
        """Return the recorded outputs of a node with effects; None for a node to compute.

        Raises:
            FailedPreconditionError: the node has effects, and did not run in the recording.
            UnimplementedError: the node has effects, and its outputs cannot be stored.
        """
        node = instance.node
        if not has_effects(node):
            return None
        recorded = self._recorder.instance(run, instance)
        key = self.recording.name(recorded), self.recording.iteration(recorded)
        if not self._events[key]:
            raise FailedPreconditionError(self._divergence(*key))
        event = self._events[key][-1]
        if self._is_handle_maker(node):
            return None
        return [
            self._output(run, node, dtype, value)
            for dtype, value in zip(node.output_types, event.outputs, strict=True)
        ]

    def node_done(self, run: SteppableRun, instance: NodeInstance, outputs: Sequence[Any]) -> None:
        """See `StepDriver`."""
        super().node_done(run, instance, outputs)
        event = self.recording.events[-1]
        key = self._key(self.recording, event)
        events = self._events[key]
        if not events:
            return
        recorded = events.pop()
        if is_argument(instance.node) and run.caller is None:
            return  # a feed
        pairs = zip(recorded.outputs, event.outputs, strict=True)
        for output, indices in enumerate(pairs):
            self._compare(*key, output, *indices)

    @staticmethod
    def _key(recording: Recording, event: Event) -> tuple[str, str]:
        return recording.name(event.instance), recording.iteration(event.instance)

    def _compare(self, node: str, iteration: str, output: int, old: int, new: int) -> None:
        recorded = None if old == DEAD_VALUE else self.recorded.values[old]
        replayed = None if new == DEAD_VALUE else self.recording.values[new]
        if recorded and replayed and not recorded.is_tensor and not replayed.is_tensor:
            return  # handles cannot be compared
        self.num_compared += 1
        if (recorded and recorded.digest) != (replayed and replayed.digest):
            texts = [str(value or "dead") for value in (recorded, replayed)]
            self.differences.append(ReplayDifference(node, iteration, output, *texts))

    def _output(self, run: SteppableRun, node: Node, dtype: DType, value: int) -> Any:
        """Return an output of a node with effects."""
        if value == DEAD_VALUE:
            return DEAD
        recorded = self.recorded.values[value]
        array = recorded.array
        if dtype.is_ref:
            ref = Ref(dtype.base_dtype, recorded.shape or None, node.name)
            ref.value = array
            return ref
        if array is None:
            raise UnimplementedError(
                f"the recording does not hold the elements of the {recorded.dtype} value that "
                f"'{node.name}' ({node.op}) returned ({recorded.text or 'not a tensor'}); a step "
                "with such a node cannot be replayed",
                node=node.name,
                op=node.op,
            )
        is_on_host = run.device.is_host_memory or array.dtype.hasobject
        return array if is_on_host else run.device.to_device(array)

    @staticmethod
    def _is_handle_maker(node: Node) -> bool:
        """Return whether a node only creates handles, which has no visible effect."""
        takes_handle = any(dtype.base_dtype.kind == "h" for dtype in node.input_types)
        gives_handle = any(
            dtype.base_dtype.kind == "h" and not dtype.is_ref for dtype in node.output_types
        )
        return gives_handle and not takes_handle

    def _divergence(self, name: str, iteration: str) -> str:
        """Return the message for a node with effects that did not run in the recording."""
        where = f" in {iteration}" if iteration else ""
        first = f"; the first difference is {self.differences[0]}" if self.differences else ""
        return (
            f"the replay diverged from the recording: '{name}' has effects and did not "
            f"run{where} in the recording{first}"
        )


def replay(session: Session, recorded: Recording) -> Replay:
    """Run the step of a recording again to its end, and return the differences.

    Args:
        session, recorded: as for `Replay`.

    Returns:
        The replay, which has ended; `differences` is empty if the step was repeated exactly.

    Raises:
        OpError: as for `Replay`.
    """
    with Replay(session, recorded) as repeated:
        repeated.resume(wait=0)
        return repeated


def recorded_feed(recorded: Recording, feed: str) -> Any:
    """Return the value of a feed.

    Raises:
        InvalidArgumentError: it was not recorded.
    """
    try:
        value = recorded.value(feed.removesuffix(":0"))
    except NotFoundError:
        value = None
    if value is None or value.array is None:
        raise InvalidArgumentError(
            f"the recording has no value of the feed '{feed}', so it cannot be replayed; a partial "
            "run and a step that is fed a handle never can"
        )
    return value.array
