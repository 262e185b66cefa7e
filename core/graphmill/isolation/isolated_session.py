"""`IsolatedSession`: runs steps of a model that lives in a process of its own."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from google.protobuf.message import DecodeError

from graphmill import files, proto
from graphmill.access.policy_config import rules_of, with_access
from graphmill.access.rules import AccessRules, local_path
from graphmill.errors import (
    DataLossError,
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
)
from graphmill.explain.step_trace import traced_options
from graphmill.isolation import packets
from graphmill.isolation.child_process import ChildProcess
from graphmill.isolation.error_packets import decode_error
from graphmill.isolation.limits import IsolationLimits
from graphmill.isolation.packets import Packet
from graphmill.isolation.protections import check_protections
from graphmill.isolation.tensors import decode_tensors, encode_tensors
from graphmill.isolation.visible_files import visible_files
from graphmill.runtime.threads.finalizer_thread import call_when_dropped
from graphmill.session.options import as_message, copy_message
from graphmill.session.steps.fetches import FetchPlan, feed_name, several, target_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_BUDGET_SHARE: Final = 0.8
"""Share of the process's memory that one allocation may have, unless the configuration says."""


class IsolatedSession:
    """A session over a model file in a process that the operating system restricts.

        with IsolatedSession("model.pb") as session:
            probabilities = session.run("softmax:0", {"image:0": image})

    The process is started and the model loaded at once. Steps of several threads run one after the
    other. The session has `run`, `make_callable`, `close` and the context manager of
    `graphmill.Session`; values are numbers and strings, not resources.

    Args:
        path: local path of a SavedModel, GraphDef or MetaGraphDef.
        tags: the tags of a SavedModel's meta graph.
        config: a `ConfigProto`, its bytes, or a dict in protobuf's JSON form.
        allow: what the model may do besides computing: rules for files only.
        trust: True lifts graphmill's own rules; those of the operating system remain.
        limits: what the process may use, and which protections are required.

    Attributes:
        meta_graph: the `MetaGraphDef` of the model with its tags and signatures only.

    Raises:
        UnimplementedError: this system cannot isolate the model; the message says why.
        InvalidArgumentError: a limit or rule is invalid, or a rule allows what isolation never
            does.
        NotFoundError: the model does not exist.
        OpError: the model cannot be loaded.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        tags: str | Iterable[str] | None = None,
        config: Any = None,
        *,
        allow: Iterable[str] | None = None,
        trust: bool | None = None,
        limits: IsolationLimits | None = None,
    ) -> None:
        limits = limits or IsolationLimits()
        check_protections(limits.require)
        config = as_message(proto.ConfigProto, config, "config")
        config = _child_config(with_access(config, allow, trust, is_loaded=True), limits)
        text = files.as_path(path)
        access = visible_files(text, rules_of(config) or AccessRules())
        self._timeout_ms = config.operation_timeout_in_ms
        self._config = config
        self._process = ChildProcess(text, limits, access)
        self._finalizer = call_when_dropped(self, self._process.close)
        try:
            self.meta_graph = self._load(text, tags)
        except BaseException:
            self.close()
            raise

    @property
    def allowed(self) -> tuple[str, ...] | None:
        """The access rules of the model; None if only the operating system restricts it."""
        rules = rules_of(self._config)
        return None if rules is None else tuple(rules.texts())

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: Any = None,
        run_metadata: Any = None,
        *,
        targets: Iterable[Any] = (),
    ) -> Any:
        """Run a step, and return the fetched values; see `graphmill.Session.run`.

        Raises:
            OpError: the error of the first failing node; the session stays usable.
            DeadlineExceededError: the step did not end in time; if the process did not cancel it
                either, the process was ended.
            ResourceExhaustedError: a limit was reached; the message names it.
            UnavailableError: the process crashed or was killed; load the model again.
            CancelledError: the session is closed.
        """
        plan = FetchPlan(fetches)
        feeds = {feed_name(key): value for key, value in (feed_dict or {}).items()}
        names = [*plan.targets, *map(target_name, several(targets))]
        return plan.rebuild(self._step(plan.tensors, feeds, names, options, run_metadata))

    def make_callable(
        self,
        fetches: Any,
        feed_list: Sequence[Any] | None = None,
        *,
        targets: Iterable[Any] = (),
        options: Any = None,
    ) -> Callable[..., Any]:
        """Return a function of the values of `feed_list` that returns what `run` would."""
        plan = FetchPlan(fetches)
        feeds = [feed_name(feed) for feed in several(feed_list)]
        names = [*plan.targets, *map(target_name, several(targets))]

        def call(*values: Any, run_metadata: Any = None) -> Any:
            if len(values) != len(feeds):
                raise InvalidArgumentError(f"expected {len(feeds)} values, got {len(values)}")
            fed = dict(zip(feeds, values, strict=True))
            return plan.rebuild(self._step(plan.tensors, fed, names, options, run_metadata))

        return call

    def waits(self) -> list[Any]:
        """Return an empty list: only the process itself knows which nodes wait."""
        return []

    def close(self) -> None:
        """End the process, at once if a step is running; safe to call twice."""
        if self._finalizer.detach() is not None:
            self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _load(self, path: str, tags: str | Iterable[str] | None) -> proto.MetaGraphDef:
        arguments = {
            "path": os.path.realpath(local_path(path) or path),
            "tags": [tags] if isinstance(tags, str) else None if tags is None else sorted(tags),
            "config": self._config.SerializeToString().hex(),
        }
        with self._process.lock:
            request = Packet(packets.LOAD, json.dumps(arguments).encode())
            reply = self._process.request(request, None, "loading")
            meta_graph: proto.MetaGraphDef = self._parsed(reply, packets.MODEL, proto.MetaGraphDef)
            return meta_graph

    def _step(
        self,
        fetches: Sequence[str],
        feeds: Mapping[str, Any],
        targets: Sequence[str],
        options: Any,
        run_metadata: Any,
    ) -> list[Any]:
        message = as_message(proto.RunOptions, options, "options")
        message = traced_options(message, run_metadata) or message
        milliseconds = message.timeout_in_ms or self._timeout_ms
        timeout = milliseconds / 1000 if milliseconds > 0 else None
        began = time.monotonic()
        if not self._process.lock.acquire(timeout=-1 if timeout is None else timeout):
            raise DeadlineExceededError(
                f"the step did not start within {timeout:g} s, because steps of an isolated model "
                "run one after the other"
            )
        try:
            if timeout is not None:  # what is left of it
                timeout = max(timeout - (time.monotonic() - began), 0.001)
                message.timeout_in_ms = max(round(timeout * 1000), 1)
            return self._exchange(fetches, feeds, targets, message, timeout, run_metadata)
        finally:
            self._process.lock.release()

    def _exchange(
        self,
        fetches: Sequence[str],
        feeds: Mapping[str, Any],
        targets: Sequence[str],
        options: proto.RunOptions,
        timeout: float | None,
        run_metadata: Any,
    ) -> list[Any]:
        """Send a step to the process, and return the values of its reply."""
        self._process.check()
        area = self._process.area
        fed, regions = encode_tensors(feeds.items(), area)
        request = proto.RunStepRequest(feed=fed, fetch=fetches, target=targets, options=options)
        packet = Packet(packets.RUN, request.SerializeToString(), regions)
        reply = self._process.request(packet, timeout, "a step")
        response = self._parsed(reply, packets.RESULT, proto.RunStepResponse)
        try:
            if [named.name for named in response.tensor] != list(fetches):
                raise DataLossError("the tensors of the reply are not the fetched ones")
            values = decode_tensors(response.tensor, reply.regions, area)
        except OpError as error:
            raise self._process.malformed(error) from None
        if run_metadata is not None:
            copy_message(response.metadata, run_metadata)
        return [value[()] if np.ndim(value) == 0 else value for value in values]

    def _parsed(self, reply: Packet, kind: int, message: Any) -> Any:
        """Return the message of a reply; raise the error that it has instead."""
        if reply.kind == kind:
            try:
                return message.FromString(reply.payload)
            except DecodeError as error:
                raise self._process.malformed(error) from None
        try:
            failure = decode_error(reply)
        except DataLossError as error:
            raise self._process.malformed(error) from None
        raise failure


def _child_config(config: proto.ConfigProto, limits: IsolationLimits) -> proto.ConfigProto:
    """Return the configuration for the process.

    Raises:
        InvalidArgumentError: it has a cache of compiled programs, which are code.
    """
    if config.graphmill.jit_cache_dir:
        raise InvalidArgumentError(
            "graphmill.jit_cache_dir cannot be combined with isolation: a cache of compiled "
            "programs is code that an isolated model could replace; leave it out"
        )
    copy = proto.ConfigProto()
    copy.CopyFrom(config)
    if not copy.graphmill.memory_budget_bytes:
        copy.graphmill.memory_budget_bytes = int(limits.memory_bytes * _BUDGET_SHARE)
    return copy
