"""`ExecutorsBuilder`: create the executors of a session's signatures (clause S4).

Semantics: `DirectSession::CreateExecutors` in
`tensorflow/core/common_runtime/direct_session.cc`.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from graphmill.lowering.debug_watches import insert_debug_nodes
from graphmill.lowering.prune import ClientEnd
from graphmill.runtime.process.event_log import INFO, is_logged, log_event
from graphmill.session.executors_cache import ExecutorsAndKeys, syncs_devices
from graphmill.session.steps.feeds import feed_shape
from graphmill.session.steps.transfer import arrays_of_fed, copies_out, feed_converters

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from graphmill.access.broker import Broker
    from graphmill.graph.graph import Graph
    from graphmill.lowering.callable_options import CallableRewrites
    from graphmill.lowering.execution_state import GraphExecutionState
    from graphmill.lowering.partitioning.build_executors import PartitionMaker, PerPartition
    from graphmill.lowering.passes import PassOptions
    from graphmill.session.executors_cache import Signature

_MIN_LARGE_GRAPH_NODES: Final = 10_000  # from here on, full garbage collections take long


class ExecutorsBuilder:
    """Prunes, places, partitions and binds a session's graph for one signature at a time.

    Args:
        state: the session's full graph.
        options: the session's name, devices, host and policy.
        partitions: makes the partitions of ordinary steps.
        graph_lock: guards the full graph; it is held while a client graph is built.
    """

    def __init__(
        self,
        state: GraphExecutionState,
        options: PassOptions,
        partitions: PartitionMaker,
        graph_lock: AbstractContextManager[Any],
    ) -> None:
        self._state = state
        self._options = options
        self._partitions = partitions
        self._graph_lock = graph_lock

    def build(
        self,
        key: Signature,
        source: Graph | None,
        *,
        is_partial: bool,
        watches: Sequence[Any],
        rewrites: CallableRewrites | None,
        maker: PartitionMaker | None = None,
    ) -> ExecutorsAndKeys:
        """Return new executors of a signature (feeds, fetches, targets).

        Args:
            key: the signature.
            source: the program's graph object, if there is one, which has the shapes of feeds.
            is_partial: whether the signature is fed and fetched piece by piece (clause S8).
            watches: the `DebugTensorWatch`es of the run (clause P6).
            rewrites: further options of a callable (clause S7).
            maker: makes the partitions; by default those of ordinary steps.

        Raises:
            OpError: a name does not exist, or placement, a pass or a kernel refused the graph.
        """
        feeds, fetches, targets = key
        options = self._options
        client_end = self._client_end() if is_partial else None
        with self._graph_lock, collections_for(len(self._state.graph)):
            full = self._state.graph
            client = self._state.build_client_graph(*key, client_end, rewrites, watches)
            needed_feeds = client.needed_feeds() if is_partial else {}
            if watches:
                insert_debug_nodes(client.graph, watches, options.host.ops, full)
            items, placements = (maker or self._partitions).for_client_graph(client.graph, full)
            if watches:
                _publish_graphs(items, watches, options.effects.broker("a debug watch"))
            shapes = tuple(
                feed_shape(full, source or full, feed, options.host.ops) for feed in feeds
            )
        devices_of_feeds = {} if rewrites is None else dict(rewrites.feed_devices)
        devices_of_fetches = {} if rewrites is None else dict(rewrites.fetch_devices)
        to_host = copies_out(
            items, client.fetch_types, [fetch in devices_of_fetches for fetch in fetches]
        )
        if rewrites is None:
            to_host = arrays_of_fed(to_host, fetches, feeds, client.fetch_types)
        executors = ExecutorsAndKeys(
            items=tuple(items),
            feeds=feeds,
            fetches=fetches,
            targets=targets,
            feed_types=client.feed_types,
            fetch_types=client.fetch_types,
            feed_shapes=shapes,
            converters=feed_converters(items, feeds, client.feed_types, shapes, devices_of_feeds),
            to_host=to_host,
            placements=tuple(placements),
            needed_feeds=needed_feeds,
            rewrites=rewrites,
            syncs_devices=syncs_devices(items, rewrites),
        )
        if is_logged("executor", INFO):
            _log_executors(options.session_handle, executors)
        return executors

    def hot_partitions(
        self, key: Signature, rewrites: CallableRewrites | None = None
    ) -> tuple[PerPartition, ...]:
        """Return newly built partitions of a signature, with the passes of phase `HOT`.

        Args:
            key: the signature.
            rewrites: further options of a callable.

        Raises:
            OpError: a pass or a kernel refused the graph.
        """
        with self._graph_lock, collections_for(len(self._state.graph)):
            full = self._state.graph
            client = self._state.build_client_graph(*key, rewrites=rewrites)
            items, _ = self._partitions.for_client_graph(client.graph, full, is_hot=True)
        return tuple(items)

    def _client_end(self) -> ClientEnd:
        client = self._options.devices.host.attributes
        return ClientEnd(client.name, client.incarnation)


def collections_for(num_nodes: int) -> AbstractContextManager[None]:
    """Return the garbage collection context for building or lowering a graph of `num_nodes`."""
    if num_nodes < _MIN_LARGE_GRAPH_NODES:
        return nullcontext()
    # Imported here: few graphs are large.
    from graphmill.runtime.process.full_collections import NO_FULL_COLLECTIONS

    return NO_FULL_COLLECTIONS


def _log_executors(session: str, executors: ExecutorsAndKeys) -> None:
    log_event(
        "executor",
        INFO,
        "executors created",
        session=session,
        feeds=executors.feeds,
        fetches=executors.fetches,
        targets=executors.targets,
        nodes={item.device.name: len(list(item.graph.nodes)) for item in executors.items},
    )


def _publish_graphs(items: Sequence[PerPartition], watches: Sequence[Any], broker: Broker) -> None:
    from graphmill.session.debugging.debug_metadata import publish_graphs  # few steps are watched

    publish_graphs(items, watches, broker)
