"""Deliberately broken copies of the DEFAULT executor; see `test_seeded_faults.py`."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from typing import Any

import pytest

from graphmill import errors
from graphmill.plugin.host import Host
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.executor import Executor, ExecutorFactory
from graphmill.runtime.kernels.op_kernel import OpKernel
from graphmill.testing import timeouts
from graphmill.testing.conformance import ExecutorTests
from graphmill.testing.fakes import strict_device
from graphmill.testing.fakes.executor_probe import probed

timeouts.TIMEOUT = 2.0
timeouts.within.__defaults__ = (2.0,)


class Wrapped(Executor):
    def __init__(self, inner):
        self.inner = inner

    def run_async(self, args, done):
        self.inner.run_async(args, done)

    def close(self):
        self.inner.close()


class NeverDone(Wrapped):
    def run_async(self, args, done):
        self.inner.run_async(args, lambda error: None)


class DoneTwice(Wrapped):
    def run_async(self, args, done):
        def twice(error):
            done(error)
            done(error)

        self.inner.run_async(args, twice)


class NeverDoneAfterCancellation(Wrapped):
    def run_async(self, args, done):
        self.inner.run_async(args, lambda error: done(None) if error is None else None)


class SwallowsErrors(Wrapped):
    def run_async(self, args, done):
        self.inner.run_async(args, lambda error: done(None))


class LosesErrorLocation(Wrapped):
    """Loses the location of an error."""

    def run_async(self, args, done):
        def placeless(error):
            if error is not None:
                error = errors.UnknownError("something failed")
            done(error)

        self.inner.run_async(args, placeless)


class EndsTooEarly(Wrapped):
    """Reports an error before waiting kernels have ended."""

    def run_async(self, args, done):
        calls = []

        def once(error):
            if not calls:
                calls.append(error)
                done(error)

        args.start_cancel = lambda reason: once(reason)  # type: ignore[method-assign]
        self.inner.run_async(args, once)


class InAnotherThread(Wrapped):
    def run_async(self, args, done):
        def elsewhere(error):
            thread = threading.Thread(target=done, args=(error,))
            thread.start()
            thread.join()

        self.inner.run_async(args, elsewhere)


def kernels(change: Any) -> type[Wrapped]:
    class Changed(Wrapped):
        change_kernel = staticmethod(change)

    return Changed


def copy_of(kernel: OpKernel, compute: Any) -> OpKernel:
    made = OpKernel(
        compute, kernel.definition, kernel.node_name, kernel.op, kernel.device, kernel.xp,
        kernel.owner,
    )  # fmt: skip
    made.functions, made.state = kernel.functions, kernel.state
    return made


def runs_twice(kernel):
    if kernel.definition.async_ or not kernel.definition.stateful:
        return kernel

    def compute(*inputs):
        kernel.compute(*inputs)
        return kernel.compute(*inputs)

    return copy_of(kernel, compute)


def mixes_inputs(kernel):
    if kernel.op not in ("Sub", "SquaredDifference", "AddV2"):
        return kernel
    return copy_of(kernel, lambda x, y: kernel.compute(x, x))


def forgets_iterations(kernel):
    """Returns the result of a loop's first iteration in all iterations."""
    if kernel.op != "AddV2":
        return kernel
    kept: list[Any] = []

    def compute(x, y):
        if not kept or kept[0].shape != kernel.compute(x, y).shape:
            kept[:] = [kernel.compute(x, y)]
        return kept[0]

    return copy_of(kernel, compute)


def fails_sometimes(kernel):
    if kernel.definition.stateful:
        return kernel
    count = itertools.count(1)

    def compute(*inputs):
        if next(count) % 7 == 0:
            raise errors.InternalError("now and then")
        return kernel.compute(*inputs)

    return copy_of(kernel, compute)


RunsTwice, MixesInputs = kernels(runs_twice), kernels(mixes_inputs)
ForgetsIterations, FailsSometimes = kernels(forgets_iterations), kernels(fails_sometimes)


def suite(name: str, wrapper: Any) -> Any:
    class Factory(ExecutorFactory):
        def new_executor(self, params, graph):
            change = getattr(wrapper, "change_kernel", None)
            if change is not None:
                create = params.create_kernel
                params = replace(params, create_kernel=lambda node: change(create(node)))
            default = params.find_executor("DEFAULT")
            return wrapper(default.new_executor(params, graph))

    class Plugin:
        @hookimpl
        def graphmill_register_executors(self, executors):
            executors.add("FAULTY", Factory())

    class Suite(ExecutorTests):
        executor_type = "FAULTY"
        seeds = 2

        @pytest.fixture
        def watched(self, probe_ops, name):
            host = Host(plugins=[Plugin(), probe_ops, strict_device])
            host, probe = probed(host, name, probe_ops)
            yield host, probe
            assert not probe.problems(), probe.problems()

    Suite.__name__ = Suite.__qualname__ = f"Test{name}"
    return Suite


TestSound = suite("Sound", Wrapped)
TestNeverDone = suite("NeverDone", NeverDone)
TestNeverDoneAfterCancellation = suite("NeverDoneAfterCancellation", NeverDoneAfterCancellation)
TestDoneTwice = suite("DoneTwice", DoneTwice)
TestSwallowsErrors = suite("SwallowsErrors", SwallowsErrors)
TestLosesErrorLocation = suite("LosesErrorLocation", LosesErrorLocation)
TestInAnotherThread = suite("InAnotherThread", InAnotherThread)
TestRunsTwice = suite("RunsTwice", RunsTwice)
TestMixesInputs = suite("MixesInputs", MixesInputs)
TestForgetsIterations = suite("ForgetsIterations", ForgetsIterations)
TestFailsSometimes = suite("FailsSometimes", FailsSometimes)


class IgnoresCancellation(Wrapped):
    def run_async(self, args, done):
        args.parent_cancellation = None
        self.inner.run_async(args, done)


TestIgnoresCancellation = suite("IgnoresCancellation", IgnoresCancellation)
