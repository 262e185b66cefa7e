"""Shared fixtures: a plugin with kernels that wait, count, and fail on request."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import graphmill
from graphmill import dtypes, errors
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.runtime.kernels.kernel import kernel

PASS_THROUGH = ((ArgDef("x", dtypes.float32),), (ArgDef("y", dtypes.float32),))


class Probe:
    """A plugin whose kernels tests can inspect.

    `Probe>Count` counts its calls; `Probe>Hold` waits, holding up its thread, until `release` is
    set; `Probe>Wait` waits, holding up nothing, until the step is cancelled; `Probe>Raise` raises
    `error`; `Probe>Scratch` leaves something in the step's container.
    """

    def __init__(self) -> None:
        self.count = 0
        self.is_held = threading.Event()
        self.release = threading.Event()
        self.is_waiting = threading.Event()
        self.was_woken = threading.Event()
        self.scratch: list[Any] = []
        self.error: BaseException = ValueError("the kernel's own words")

    @graphmill.hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        for name in ("Count", "Hold", "Wait", "Raise", "Scratch"):
            ops.add(OpDef(f"Probe>{name}", *PASS_THROUGH, is_stateful=True))

    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        probe = self

        @kernel("Probe>Count", stateful=True)
        def count(ctx: Any, x: Any) -> Any:
            probe.count += 1
            return x

        @kernel("Probe>Hold", stateful=True)
        def hold(ctx: Any, x: Any) -> Any:
            probe.is_held.set()
            assert probe.release.wait(60)
            return x

        @kernel("Probe>Wait", async_=True)
        def wait(ctx: Any, x: Any, *, done: Any) -> None:
            def wake() -> None:
                probe.was_woken.set()
                done(error=errors.CancelledError("woken by cancellation"))

            token = ctx.cancellation.register(wake)
            if token is None:
                done(error=errors.CancelledError("too late"))
            probe.is_waiting.set()

        @kernel("Probe>Raise", stateful=True)
        def fail(ctx: Any, x: Any) -> Any:
            raise probe.error

        @kernel("Probe>Scratch", stateful=True)
        def scratch(ctx: Any, x: Any) -> Any:
            ctx.resources.create(ctx.step_container, "r", probe)
            probe.scratch.append((ctx.step_id, ctx.step_container, ctx.resources))
            return x

        for declared in (count, hold, wait, fail, scratch):
            kernels.add(declared)


@pytest.fixture
def probe() -> Any:
    probe = Probe()
    yield probe
    probe.release.set()


@pytest.fixture
def probe_host(probe: Probe) -> graphmill.Host:
    return graphmill.Host(plugins=[probe])


@pytest.fixture
def in_thread() -> Any:
    """Return a function that runs another in a thread and returns a waiter for the result."""
    threads: list[threading.Thread] = []

    def start(function: Any, *args: Any, **keywords: Any) -> Any:
        outcome: list[Any] = []

        def work() -> None:
            try:
                outcome.append((function(*args, **keywords), None))
            except errors.OpError as error:
                outcome.append((None, error))

        thread = threading.Thread(target=work, daemon=True)
        threads.append(thread)
        thread.start()

        def result() -> Any:
            thread.join(60)
            value, error = outcome[0]
            if error is not None:
                raise error
            return value

        return result

    yield start
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
