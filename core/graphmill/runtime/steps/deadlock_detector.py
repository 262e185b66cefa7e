"""`DeadlockDetector`: fail a step whose partitions wait for each other forever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from graphmill.errors import InternalError

if TYPE_CHECKING:
    from types import TracebackType

    from graphmill.runtime.executor import ExecutorArgs
    from graphmill.runtime.rendezvous import Rendezvous


class DeadlockDetector:
    """Watches a rendezvous that only the partitions of one run, and the run's client, use.

    Such a run is deadlocked if its driving thread waits while only receives are pending: no node is
    ready, so nothing will be sent. While a kernel runs in another thread or waits for a queue,
    nothing can be concluded.

    Used as a context manager around the driving of a step; `start` and `stop` do the same.

    Args:
        args: the arguments of the run; its `rendezvous` is watched.

    Attributes:
        num_clients: the number of pending receives that belong to the client.
    """

    __slots__ = ("_args", "num_clients")

    def __init__(self, args: ExecutorArgs) -> None:
        self._args = args
        self.num_clients = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start watching."""
        self._args.runner.watches.append(self._check)

    def stop(self) -> None:
        """End watching; a second call does nothing."""
        watches = self._args.runner.watches
        if self._check in watches:
            watches.remove(self._check)

    def _check(self) -> None:
        args = self._args
        rendezvous: Rendezvous = args.rendezvous
        count = sum(args.receiving.values())
        if not count or count != args.num_awaited:
            return
        keys = rendezvous.awaited_keys()
        # A receive whose value has arrived, but is not posted yet, is no longer in the table.
        if keys is not None and len(keys) == count + self.num_clients:
            rendezvous.start_abort(InternalError(self._deadlock_message(keys)))

    def _deadlock_message(self, keys: list[str]) -> str:
        lines = ["the step is stuck: no node is ready, and these receives wait for missing sends:"]
        names = {}
        for run in self._args.receiving:
            names.update(run.iteration_names())
        for key in sorted(keys):
            source, _, target, edge, iteration = key.split(";", 4)
            where = f" in iteration {names[iteration]}" if iteration in names else ""
            lines.append(f"  {edge} from {source} to {target}{where}")
        lines += [
            f"on {run.device_name}:\n{run.describe_pending()}" for run in self._args.receiving
        ]
        return "\n".join(lines)
