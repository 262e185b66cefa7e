"""`Session`: run graphs (clauses S1-S7, S10, S11, W0). The API is `tf.compat.v1.Session`'s."""

from __future__ import annotations

import os
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from graphmill import proto
from graphmill.errors import InvalidValueError
from graphmill.graph.default_session import pop_default_session, push_default_session
from graphmill.graph.formats.import_export import extend_graph
from graphmill.graph.graph import Graph
from graphmill.plugin.host import default_host
from graphmill.runtime.process.fork import fork_safe_lock
from graphmill.session.options import as_message, run_options_of
from graphmill.session.steps.feeds import check_declared_once, check_values, checked_feeds
from graphmill.session.steps.fetches import FetchPlan, feed_name, several, target_name
from graphmill.session.targets import new_session, reset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    from graphmill.explain.session_stats import SessionStats
    from graphmill.explain.step import StepRecord
    from graphmill.graph.builder import Graph as GraphObject
    from graphmill.graph.formats.model_file import LoadedGraph
    from graphmill.plugin.host import Host
    from graphmill.runtime.devices.device import DeviceAttributes
    from graphmill.runtime.stepping import StepDriver
    from graphmill.runtime.steps.waits import WaitRecord
    from graphmill.session.debugging.debug_step import DebugStep
    from graphmill.session.executors_cache import Signature
    from graphmill.typing import Value


_NAMES = {str}
_MAX_CACHED_PLANS = 1024  # fetch structures that a session caches


class Session:
    """Runs the nodes of a graph and holds its variables and other resources.

        with graphmill.Session(graph="model.pb") as session:
            print(session.run("y:0", {"x:0": [1.0, 2.0]}))  # [2. 4.]

    Args:
        target: empty for a session in this process; else the target of a server, such as
            `grpc://127.0.0.1:7001`.
        graph: a `graphmill.Graph`, a `GraphDef` message, its bytes, or the path of a model file.
            Nodes that are added to a graph object later become part of the session. None means the
            default graph, or an empty graph if there is none.
        config: a `ConfigProto`, its bytes, or a dict in protobuf's JSON form.
        host: supplies ops, kernels, devices and executors; by default all installed plugins.
        allow: what the graph may do besides computing, as `["fs.read:DATA", "fs.write:OUT"]`; see
            `graphmill.access.rules`. By default, a graph that is given as a path may do nothing
            else (the policy *pure*), and one that the program made, or gives as a message or
            bytes, may do everything.
        trust: True allows everything, False only what `allow` lists.

    In a `with` block, which closes it at the end, and in `with session.as_default():`, a session is
    the default session of the thread or task, and its graph the default graph.

    Threads: `run`, callables, `extend` and `close` may be called from any number of threads.

    Raises:
        NotFoundError: the target, executor type or file does not exist.
        InvalidArgumentError: config, graph or a rule is malformed.
    """

    def __init__(
        self,
        target: str = "",
        graph: Any = None,
        config: Any = None,
        host: Host | None = None,
        *,
        allow: Iterable[str] | None = None,
        trust: bool | None = None,
    ) -> None:
        host = host or default_host()
        config = as_message(proto.ConfigProto, config, "config")
        if allow is not None or trust is not None or _is_loaded(graph):
            from graphmill.access.policy_config import with_access  # many sessions need none

            config = with_access(config, allow, trust, is_loaded=_is_loaded(graph))
        self._target = target
        self._config = config
        self._source: GraphObject | None = None
        self._source_lock = fork_safe_lock()
        self._loaded: LoadedGraph | None = None
        self._host = host
        self._impl = new_session(target, config, host)
        self._impl.graph_object = _graph_of(weakref.ref(self))
        self._plans: dict[Any, FetchPlan] = {}
        try:
            self._take_graph(graph)
        except BaseException:
            self._impl.close()
            raise

    @property
    def graph(self) -> GraphObject:
        """The graph that the session runs; add nodes, but do not change nodes that have run.

        For a session of a GraphDef or file it is created on first access.
        """
        if self._source is None:
            with self._source_lock:
                self._source = self._source or self._graph_object()
        return self._source

    @property
    def host(self) -> Host:
        """The host, which supplies the session's ops, kernels, devices and executors."""
        return self._host

    @property
    def graph_def(self) -> proto.GraphDef:
        """A GraphDef of the graph."""
        return self.graph.as_graph_def()

    @property
    def allowed(self) -> tuple[str, ...] | None:
        """The access rules under which the graph runs; None if it may do everything.

        A server applies its own rules in addition.
        """
        from graphmill.access.policy_config import rules_of

        rules = rules_of(self._config)
        return None if rules is None else tuple(rules.texts())

    @property
    def sess_str(self) -> str:
        """The target, under its name in `tf.compat.v1.Session`."""
        return self._target

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: Any = None,
        run_metadata: Any = None,
        *,
        targets: Iterable[Any] = (),
    ) -> Any:
        """Run the nodes that the fetches and targets need, and return the fetched values.

        Args:
            fetches: a tensor or operation, the name of one (`"y:0"`, `"train"`), or any nesting of
                lists, tuples, dicts, namedtuples and dataclasses of them. An operation gives None.
            feed_dict: values by tensor or name; any tensor can be fed, not only placeholders.
            targets: operations to run in addition.
            options: `RunOptions`: `timeout_in_ms`, `trace_level`, `output_partition_graphs` …
            run_metadata: a `RunMetadata` message to fill, or a `timeline.StepTrace`.

        Returns:
            The structure of `fetches` with NumPy arrays (scalars for rank 0, bytes for a string).

        Raises:
            NotFoundError: a name does not exist, or an op has no kernel.
            InvalidArgumentError: a value that is fed does not fit its tensor.
            CancelledError: the session is closed.
            OpError: the error of the first failing node; the session stays usable.
        """
        impl = self._impl
        impl.check_open()
        feeds = checked_feeds(feed_dict)
        plan, key = self._signature(fetches, feeds, targets)
        if not (key[1] or key[2]):
            return self._run_nothing(plan, key[0], feeds.values())
        values = list(feeds.values())
        return plan.rebuild(
            impl.run(key, values, run_options_of(options, run_metadata), run_metadata)
        )

    def make_callable(
        self,
        fetches: Any,
        feed_list: Sequence[Any] | None = None,
        accept_options: bool = False,
        *,
        targets: Iterable[Any] = (),
        options: Any = None,
    ) -> Callable[..., Any]:
        """Return a function that runs one signature without looking up names (clause S7).

        The function takes the values of `feed_list` by position (and `run_metadata` by keyword) and
        returns what `run` would.

        Args:
            fetches, targets: as for `run`.
            feed_list: the tensors whose values the function takes, in this order.
            accept_options: whether each call may be given `RunOptions` as `options=`. Such a
                function looks up its signature in each call.
            options: the default `RunOptions` of calls.

        Raises:
            NotFoundError: a name does not exist, or an op has no kernel.
        """
        plan, key = self._signature(fetches, several(feed_list), targets)
        if not (key[1] or key[2]):
            return self._callable_of_nothing(plan, key[0])
        call = self._impl.make_callable(key, plan.rebuild, run_options_of(options))
        return self._with_options(call, plan, key) if accept_options else call

    def make_callable_from_options(self, callable_options: Any) -> Callable[..., list[Any]]:
        """Return a function of the values of `feed`, in order, that returns all fetches (S7).

        Args:
            callable_options: a `CallableOptions`: `feed`, `fetch`, `target`, `run_options`;
                `tensor_connection` replaces one tensor by another; `feed_devices` and
                `fetch_devices` are full device names: a fetch stays on its device, a feed may be on
                it; with `fetch_skip_sync` a call does not wait for its devices.

        Raises:
            InvalidArgumentError: a device, a tensor or a connection is wrong; a tensor is both fed
                and fetched, or fed twice.
            NotFoundError: a name does not exist, or an op has no kernel.
        """
        message = as_message(proto.CallableOptions, callable_options, "callable_options")
        # Unlike in `run`, a name without an output index means output 0.
        fetches = [name if ":" in name else f"{name}:0" for name in message.fetch]
        plan, key = self._signature(fetches, message.feed, list(message.target))
        check_declared_once(key)
        options = message.run_options if message.HasField("run_options") else None
        return self._impl.make_callable(key, plan.rebuild, options, message)

    _make_callable_from_options = make_callable_from_options
    """The name in `tf.compat.v1.Session`, which programs use although it is private."""

    def extend(self, graph_def: Any) -> None:
        """Add nodes to the graph (clause S3); on an error the session is unchanged.

        Args:
            graph_def: a `GraphDef` message or its bytes, with new nodes only.

        Raises:
            OpError: see `graphmill.graph.formats.import_export.extend_graph`.
        """
        message = as_message(proto.GraphDef, graph_def, "graph_def")
        if self._source is not None and not self._source_is_given:
            extend_graph(self._source, message, self._host.ops)
            self._impl.sync_graph()
        else:
            self._impl.extend(message)

    def partial_run_setup(
        self,
        fetches: Any,
        feeds: Sequence[Any] | None = None,
        targets: Sequence[Any] = (),
        *,
        options: Any = None,
    ) -> str:
        """Start a run that is fed and fetched piece by piece (clause S8).

        Args:
            fetches: all tensors that will be fetched, in any structure.
            feeds: all tensors that will be fed.
            targets: operations to run in addition, as soon as they are ready.
            options: `RunOptions`; with a `trace_level`, each piece can return step statistics.

        Returns:
            The handle for `partial_run`. It holds resources until everything declared has been fed
            and fetched, an error ends the run, `partial_run_release` is called, or the session is
            closed.

        Raises:
            InvalidArgumentError: a tensor is declared as a feed twice, or as a feed and a fetch.
            NotFoundError: a name does not exist, or an op has no kernel.
            UnimplementedError: an option does not apply to partial runs.
        """
        _, key = self._signature(fetches, several(feeds), targets)
        check_declared_once(key)
        return self._impl.partial_run_setup(key, run_options_of(options))

    def partial_run(
        self,
        handle: str,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        *,
        run_metadata: Any = None,
    ) -> Any:
        """Feed some of the declared tensors, and return some fetches as soon as they are computed.

        Everything that can run with the values fed so far has run when this returns. The call is
        checked before it starts: an invalid call leaves the partial run unchanged.

        Args:
            handle: the result of `partial_run_setup`.
            fetches: declared tensors that have not been fetched yet, in any structure.
            feed_dict: values of declared tensors that have not been fed yet.
            run_metadata: a `RunMetadata` message that receives the statistics so far.

        Raises:
            InvalidArgumentError: the handle is unknown or finished; a tensor is fed or fetched
                twice or was not declared; a fetch needs a feed that has not been fed.
            OpError: the first error of a node, which ends the partial run.
        """
        impl = self._impl
        impl.check_open()
        plan = self._plan(fetches)
        feeds = {feed_name(key, self._source): v for key, v in checked_feeds(feed_dict).items()}
        if not (plan.tensors or feeds):
            return plan.rebuild([])
        results = impl.partial_run(handle, plan.tensors, feeds, run_metadata)
        return plan.rebuild(results)

    def partial_run_release(self, handle: str) -> None:
        """End a partial run that will not be finished, and free its resources.

        Raises:
            InvalidArgumentError: the handle is unknown or finished.
        """
        self._impl.partial_run_release(handle)

    def explain(
        self,
        fetches: Any,
        feed_list: Sequence[Any] = (),
        *,
        targets: Iterable[Any] = (),
        build: bool = False,
    ) -> StepRecord:
        """Return where and how each node of a signature runs, with the reasons and counts.

        A signature that has not run is prepared, but not run. `graphmill.explain.explain_all`
        describes all signatures.

        Args:
            fetches, feed_list, targets: as for `make_callable`.
            build: whether to build the graph for compilation now, if that has not happened.

        Raises:
            NotFoundError: a name does not exist, or an op has no kernel.
        """
        _, key = self._signature(fetches, several(feed_list), targets)
        return self._impl.explain(key, build=build)

    def debug_step(
        self,
        driver: StepDriver,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        *,
        targets: Iterable[Any] = (),
        partial_feeds: Sequence[Any] | None = None,
    ) -> tuple[DebugStep, Callable[[list[Value]], Any]]:
        """Return a step that `driver` drives node by node, and a function to rebuild its fetches.

        `graphmill.debug.Debugger` is the driver for people.

        Args:
            driver: drives the step, which has not started.
            fetches, feed_dict, targets: as for `run`.
            partial_feeds: for a partial run, the tensors that will be fed; else None.

        Raises:
            UnimplementedError: the session is on a server.
            OpError: as for `run`, before the step starts.
        """
        feeds = checked_feeds(feed_dict)
        is_partial = partial_feeds is not None
        plan, key = self._signature(fetches, partial_feeds if is_partial else feeds, targets)
        if is_partial:
            check_declared_once(key)
        values = {} if is_partial else dict(zip(key[0], feeds.values(), strict=True))
        step = self._impl.debug_step(key, values, driver, is_partial=is_partial)
        return step, plan.rebuild

    def stats(self) -> SessionStats:
        """Return counts of the session's work so far: steps, calls of tiers, compilations.

        Raises:
            UnimplementedError: the session is on a server.
        """
        return self._impl.stats()

    def step_graph(
        self, fetches: Any, feed_list: Sequence[Any] = (), *, targets: Iterable[Any] = ()
    ) -> Graph:
        """Return the graph of a signature: the nodes that it needs, with calls inlined.

        Nodes inside functions have the names that they have in a step, such as `call/node`. The
        graph is not optimized or placed yet.

        Args:
            fetches, feed_list, targets: as for `make_callable`.

        Raises:
            NotFoundError: a name does not exist.
            UnimplementedError: the session is on a server.
        """
        _, key = self._signature(fetches, several(feed_list), targets)
        return self._impl.step_graph(key)

    def loading_a_model(self) -> AbstractContextManager[None]:
        """Permit reading the files of a model in a `with` block, even if effects are forbidden.

        Loading a model needs this: its variables and tables are in files.
        """
        return self._impl.loading_a_model()

    def reading_its_model(self) -> AbstractContextManager[None]:
        """Return `loading_a_model()`; this is its old name."""
        from graphmill.deprecations import warn_renamed  # few programs call it

        warn_renamed("Session.reading_its_model", "loading_a_model")
        return self.loading_a_model()

    def allowing(self, *rules: str) -> AbstractContextManager[None]:
        """Allow more in a `with` block, if the graph runs under rules.

        Steps that other threads run meanwhile may do it as well.

        Raises:
            InvalidArgumentError: a rule is invalid.
        """
        from graphmill.access.rules import AccessRules

        return self._impl.allowing(AccessRules.parse(rules))

    def waits(self) -> list[WaitRecord]:
        """Return what the nodes of running steps wait for now; call it from another thread.

        For example "node 'deq' (QueueDequeueV2) waits for an element of FIFOQueue 'q' (...)".
        Steps on servers are not seen.
        """
        return self._impl.waits()

    def list_devices(self) -> list[DeviceAttributes]:
        """Return name, type, memory limit and incarnation of each device."""
        self._impl.check_open()
        return self._impl.list_devices()

    def __repr__(self) -> str:
        where = f"at {self._target}" if self._target else "in this process"
        return f"<{type(self).__name__} {where}>"

    def close(self) -> None:
        """Cancel running steps and free everything; later calls raise CancelledError."""
        self._impl.close()
        self._plans.clear()
        if self._loaded is not None:
            self._loaded.close()

    @staticmethod
    def reset(target: str, containers: Iterable[str] | None = None, config: Any = None) -> None:
        """Clear containers of a server and close its sessions, see `graphmill.reset`."""
        reset(target, containers, config)

    def as_default(self) -> AbstractContextManager[Self]:
        """Make this the default session in a `with` block, which does not close the session."""
        return self._default()

    def __enter__(self) -> Self:
        push_default_session(self, self._source)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pop_default_session(self, self._source)
        self.close()

    @contextmanager
    def _default(self) -> Iterator[Self]:
        push_default_session(self, self._source)
        try:
            yield self
        finally:
            pop_default_session(self, self._source)

    def _run_nothing(self, plan: FetchPlan, names: Sequence[str], values: Iterable[Any]) -> Any:
        """Check the feeds as every call does, and return the structure without fetches."""
        feeds = zip(names, values, strict=True)
        check_values(feeds, self._impl.graph, self._source, self._host.ops)
        return plan.rebuild([])

    def _callable_of_nothing(self, plan: FetchPlan, names: Sequence[str]) -> Callable[..., Any]:
        """Return the function of `make_callable` for a call that runs nothing."""

        def call(*values: Any, options: Any = None, run_metadata: Any = None) -> Any:
            del run_metadata  # nothing runs
            self._impl.check_open()
            run_options_of(options)  # which refuses invalid options
            _check_count(values, names)
            return self._run_nothing(plan, names, values)

        return call

    def _with_options(
        self, call: Callable[..., Any], plan: FetchPlan, key: Signature
    ) -> Callable[..., Any]:
        """Wrap the function of `make_callable` to accept `options` in each call."""

        def run(*values: Any, options: Any = None, run_metadata: Any = None) -> Any:
            if options is None:
                return call(*values, run_metadata=run_metadata)
            _check_count(values, key[0])
            return plan.rebuild(
                self._impl.run(
                    key, list(values), run_options_of(options, run_metadata), run_metadata
                )
            )

        return run

    def _graph_object(self) -> GraphObject:
        """Create a graph object with the nodes of the session, and follow it."""
        from graphmill.graph.builder import Graph as GraphObject

        own = self._impl.graph
        graph_object = GraphObject(self._host.ops)
        graph_object.library, graph_object.versions = own.library.copy(), own.versions
        graph_object.add_copies(list(own.nodes))
        self._impl.follow(graph_object, graph_object.num_node_ids)
        return graph_object

    def _take_graph(self, graph: Any) -> None:
        if graph is None:
            graph = _default_graph()
        self._source_is_given = isinstance(graph, Graph)
        if graph is None:
            return
        if isinstance(graph, Graph):
            self._source = cast("GraphObject", graph)
            self._impl.follow(graph)
        elif isinstance(graph, (str, os.PathLike)):
            from graphmill.graph.formats.model_file import load_graph

            self._loaded = load_graph(graph)
            self._impl.extend(self._loaded.graph_def, self._loaded.tensors)
        elif _is_read(graph):
            self._impl.extend(graph.graph_def, graph.tensors)
        else:
            self._impl.extend(as_message(proto.GraphDef, graph, "graph"))

    def _plan(self, fetches: Any) -> FetchPlan:
        """Return the plan for a fetch structure; cached for a name and for a list of names."""
        kind = type(fetches)
        key: Any
        if (kind is list or kind is tuple) and set(map(type, fetches)) <= _NAMES:
            key = (kind, *fetches)
        elif isinstance(fetches, str):
            key = fetches
        else:
            return FetchPlan(fetches, self._source)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _MAX_CACHED_PLANS:
                self._plans.clear()
            plan = self._plans[key] = FetchPlan(fetches)
        return plan

    def _feed_names(self, feeds: Iterable[Any]) -> tuple[str, ...]:
        source = self._source
        return tuple([feed_name(feed, source) for feed in feeds])

    def _signature(self, fetches: Any, feeds: Any, targets: Any) -> tuple[FetchPlan, Signature]:
        """Return the fetch plan and the signature of a call; raise if the session is closed."""
        self._impl.check_open()
        self._impl.sync_graph()
        plan = self._plan(fetches)
        names = self._feed_names(feeds)
        nodes = (*plan.targets, *self._target_names(targets))
        if self._source is not None and self._source.has_protected:
            self._source.check_protected(names, (*plan.tensors, *nodes))
        return plan, (names, plan.tensors, nodes)

    def _target_names(self, targets: Any) -> list[str]:
        return [target_name(target, self._source) for target in several(targets)]


def _graph_of(session: weakref.ref[Session]) -> Callable[[], GraphObject | None]:
    """Return a function that returns a session's graph, and does not keep the session alive."""

    def find() -> GraphObject | None:
        alive = session()
        return None if alive is None else alive.graph

    return find


def _is_loaded(graph: Any) -> bool:
    """Return whether a graph is given as a path, or was read from one."""
    return isinstance(graph, (str, os.PathLike)) or _is_read(graph)


def _is_read(graph: Any) -> bool:
    return hasattr(graph, "graph_def") and hasattr(graph, "tensors")


def _default_graph() -> Any:
    """Return the default graph, or None."""
    from graphmill.ops.inputs.default_graph import get_default_graph, has_default_graph

    return get_default_graph() if has_default_graph() else None


def _check_count(values: Sequence[Any], names: Sequence[str]) -> None:
    """Raise InvalidValueError unless a callable got a value for each of its feeds."""
    if len(values) != len(names):
        raise InvalidValueError(f"expected {len(names)} values, got {len(values)}")
