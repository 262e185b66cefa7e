"""`FakeEngine`: actors as objects of this process, which tests kill and restart."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any

from graphmill.errors import (
    AlreadyExistsError,
    CancelledError,
    DeadlineExceededError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)
from graphmill_plugins.distributed.ray.engine import ActorOptions, Engine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class FakeCall:
    """A call, which is retried after a restart if its actor allows that."""

    def __init__(self, actor: FakeActor, method: str, args: Sequence[Any]) -> None:
        self._actor, self._method, self._args = actor, method, args
        self._outcome: Future[Any] = Future()
        self.repeats = False

    def begin(self) -> None:
        instance = self._actor.instance
        if instance is None and self.repeats:
            return
        if instance is None:
            self.give(lambda: self._outcome.set_exception(UnavailableError("the actor is away")))
            return
        method = getattr(instance, self._method)
        if inspect.iscoroutinefunction(method):
            coroutine = method(*self._args)
            inner = asyncio.run_coroutine_threadsafe(coroutine, self._actor.engine.loop)
        else:
            inner = Future()
            threading.Thread(target=_run, args=(inner, method, self._args), daemon=True).start()
        inner.add_done_callback(lambda done: self._came(instance, done))

    def give(self, set_outcome: Any) -> None:
        self._actor.pending.discard(self)
        if not self._outcome.done():
            set_outcome()

    def _came(self, instance: Any, inner: Future[Any]) -> None:
        if self._actor.instance is not instance or inner.cancelled():
            return  # a dead process gives no answers
        error = inner.exception()
        if error is not None:
            self.give(lambda: self._outcome.set_exception(error))
        else:
            self.give(lambda: self._outcome.set_result(inner.result()))

    def result(self, timeout: float | None = None) -> Any:
        try:
            return self._outcome.result(timeout)
        except FutureTimeoutError:
            raise DeadlineExceededError("no answer") from None

    def cancel(self) -> None:
        self.give(lambda: self._outcome.set_exception(CancelledError("cancelled")))

    def lose(self) -> None:
        self.give(lambda: self._outcome.set_exception(UnavailableError("the actor died")))


def _run(outcome: Future[Any], method: Any, args: Sequence[Any]) -> None:
    try:
        outcome.set_result(method(*args))
    except Exception as error:  # noqa: BLE001 - given to whoever waits
        outcome.set_exception(error)


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class FakeActor:
    def __init__(
        self, engine: FakeEngine, kind: type, args: Sequence[Any], options: ActorOptions
    ) -> None:
        self.engine, self.kind, self.args, self.options = engine, kind, args, options
        self.pending: set[FakeCall] = set()
        self.instance: Any = kind(*args)
        self.num_lives = 1

    def end(self) -> None:
        """Simulate a crash: stop the server, and lose pending calls."""
        instance, self.instance = self.instance, None
        if hasattr(instance, "stop"):
            instance.stop(None)
        for call in list(self.pending):
            if not call.repeats:
                call.lose()

    def revive(self) -> None:
        self.instance = self.kind(*self.args)
        self.num_lives += 1
        for call in list(self.pending):
            call.begin()


class FakeEngine(Engine):
    """A fake of Ray.

    Attributes:
        actors: by namespace and name.
        placements: bundles and strategy of the placement groups, by name.
        num_free: how many bundles there is room for.
    """

    def __init__(self, num_free: int = 8) -> None:
        self.actors: dict[tuple[str, str], FakeActor] = {}
        self.placements: dict[str, Any] = {}
        self.num_free = num_free
        self.is_connected = False
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def close(self) -> None:
        for actor in self.actors.values():
            if actor.instance is not None:
                actor.end()
        asyncio.run_coroutine_threadsafe(_cancel_others(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def connect(self, *, may_start: bool) -> bool:
        if not (self.is_connected or may_start):
            raise UnavailableError("no Ray")
        was, self.is_connected = self.is_connected, True
        return not was

    def disconnect(self) -> None:
        self.is_connected = False

    def place(
        self,
        name: str,
        bundles: Sequence[Mapping[str, float]],
        strategy: str,
        timeout: float,
        *,
        is_detached: bool,
    ) -> Any:
        if len(bundles) > self.num_free:
            raise ResourceExhaustedError(f"no room for {len(bundles)} tasks")
        self.placements[name] = (list(bundles), strategy)
        return name

    def remove_placement(self, name: str) -> None:
        self.placements.pop(name, None)

    def start_actor(self, kind: type, args: Sequence[Any], options: ActorOptions) -> Any:
        key = (options.namespace, options.name)
        if key in self.actors:
            raise AlreadyExistsError(f"{key} already exists")
        self.actors[key] = FakeActor(self, kind, args, options)
        return self.actors[key]

    def find_actor(self, name: str, namespace: str) -> Any:
        if (namespace, name) not in self.actors:
            raise NotFoundError(f"no actor {name} of {namespace}")
        return self.actors[namespace, name]

    def call(
        self, actor: Any, method: str, *args: Any, outlives_restarts: bool = False
    ) -> FakeCall:
        made = FakeCall(actor, method, args)
        made.repeats = outlives_restarts or actor.options.repeats_calls
        actor.pending.add(made)
        made.begin()
        return made

    def kill(self, actor: Any, *, restarts: bool) -> None:
        actor.end()
        if restarts:
            actor.revive()
            return
        for call in list(actor.pending):
            call.lose()
        del self.actors[actor.options.namespace, actor.options.name]

    def node_host(self) -> str:
        return "127.0.0.1"
