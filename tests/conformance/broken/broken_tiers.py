"""Hosts that violate plugin declarations, each in one way; see `test_seeded_faults.py`."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

from graphmill import errors
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.devices.device import Device, DeviceAttributes, DeviceFactory
from graphmill.testing.conformance import TierTests
from graphmill.testing.fakes.third_party_plugin import ThirdPartyPlugin, scales
from graphmill_plugins.jit.ir import lowering_choices
from graphmill_plugins.jit.straight.output_checks import OutputChecks
from graphmill_plugins.jit.tracing import trace, traced_kernels
from graphmill_plugins.jit.tracing.trace import Tracer


def twice(compute, *inputs):
    compute(*inputs)
    return compute(*inputs)


def remembered(kernel):
    """Return a call that computes once, and then repeats its result."""
    compute, kept = kernel.compute, []

    def call(*inputs):
        if not kept:
            kept.append(compute(*inputs))
        return kept[0]

    return call


def delayed(kernel):
    """Return an asynchronous call that returns its previous result."""
    compute, values = kernel.compute, [np.float32(0)]

    def call(*inputs, done):
        def finished(output=None, error=None):
            values.append(output)
            done(values.pop(0), error)

        compute(*inputs, done=finished)

    return call


def without_errors(compute, ctx_or_x, *inputs):
    try:
        return compute(ctx_or_x, *inputs)
    except errors.InvalidArgumentError:
        return np.sqrt(np.abs(ctx_or_x))


def another_error(compute, *inputs):
    try:
        return compute(*inputs)
    except errors.InvalidArgumentError as error:
        raise errors.OutOfRangeError(error.message) from error


def another_text(compute, *inputs):
    try:
        return compute(*inputs)
    except errors.InvalidArgumentError as error:
        raise errors.InvalidArgumentError("something is wrong") from error


def coerced(compute, *inputs):
    result = compute(*inputs)
    return np.float32(0) if isinstance(result, (str, tuple)) or result is None else result


def converted(compute, *inputs):
    result = compute(*inputs)
    return result.astype(np.float32) if isinstance(result, np.generic) else result


def call_of(change):
    return lambda kernel: functools.partial(change, kernel.compute)


def every_other(kernel):
    """Return a call that skips every second call."""
    compute, turns, kept = kernel.compute, itertools.count(), []

    def call(*inputs):
        if next(turns) % 2 == 0:
            kept[:] = [compute(*inputs)]
        return kept[0]

    return call


# The op whose kernel is broken on the device, and how.
FAULTS = {
    "IgnoresPriority": ("Neg", lambda kernel: np.negative),
    "IgnoresPriorityOfGradients": ("ReluGrad", lambda kernel: lambda d, x, *_: d * (x > 0)),
    "ReturnsPreviousValue": ("Foreign>Take", delayed),
    "RunsEffectsTwice": ("Foreign>Act", call_of(twice)),
    "RunsEffectsOnce": ("Foreign>Act", remembered),
    "DropsEffects": ("Foreign>Act", every_other),
    "UpdatesTwice": ("Foreign>ApplySign", call_of(twice)),
    "DrawsTwice": ("Foreign>Draw", call_of(twice)),
    "DrawsOnce": ("Foreign>Draw", remembered),
    "HidesErrors": ("Foreign>Root", call_of(without_errors)),
    "RaisesWrongClass": ("Foreign>Root", call_of(another_error)),
    "RaisesWrongMessage": ("Foreign>Root", call_of(another_text)),
    "ConvertsOutputs": ("Foreign>Faulty", call_of(converted)),
    "AcceptsNonTensors": ("Foreign>Faulty", call_of(coerced)),
    "Sound": ("Neg", lambda kernel: kernel.compute),
}


def device_plugin(op, broken):
    class Faulty(Device):
        backends = ("numpy",)

        def namespace(self, backend):
            return np

        def to_device(self, value):
            return value

        def to_host(self, value):
            return value

        def compute_of(self, kernel):
            return broken(kernel) if kernel.op == op else kernel.compute

    class Factory(DeviceFactory):
        def create_devices(self, config, name_prefix):
            return [Faulty(DeviceAttributes(f"{name_prefix}/device:FAULTY:0", "FAULTY"))]

    class Plugin:
        @hookimpl
        def graphmill_register_devices(self, devices):
            devices.add("FAULTY", Factory())

    return Plugin()


def suite(name, op, broken):
    class Suite(TierTests):
        device = "/device:FAULTY:0"

        @pytest.fixture
        def tier(self):
            return "off"  # no compiler knows of the device

        @pytest.fixture
        def plugins(self):
            return [device_plugin(op, broken)]

    Suite.__name__ = Suite.__qualname__ = f"Test{name}"
    return Suite


for fault, (broken_op, how) in FAULTS.items():
    globals()[f"Test{fault}"] = suite(fault, broken_op, how)


class TestNothingIsCompiled(TierTests):
    """A device that claims its nodes are compiled, although no compiler ran."""

    device = "/device:FAULTY:0"
    is_compiled = True

    @pytest.fixture
    def tier(self):
        return "eager"

    @pytest.fixture
    def plugins(self):
        return [device_plugin("", None)]


class TestAnotherKernelWins(TierTests):
    """A host with another plugin's kernel of higher priority."""

    device = "/device:CPU:0"

    @pytest.fixture
    def tier(self):
        return "off"

    @pytest.fixture
    def plugins(self):
        return [ThirdPartyPlugin(kernels=[scales("Neg", 5.0, priority=20)])]


def forgets_state(kernel, inputs, kept):
    return traced_kernels.called_with(kernel, inputs, kept)[0], kept


def drops_updates(self, node, form, inputs, state):
    before = dict(state)
    outputs = VARIABLE_OP(self, node, form, inputs, state)
    state.update(before)
    return outputs


VARIABLE_OP = Tracer._variable_op
# What the compiler does otherwise on the processor: an object, its attribute, and the wrong one.
COMPILER_FAULTS = {
    "CompilerIgnoresChecks": (Tracer, "_check", lambda *_: None),
    "CompilerIgnoresEffects": (lowering_choices, "_forbidden", lambda _: ""),
    "CompilerForgetsState": (trace, "called_with", forgets_state),
    "CompilerDropsUpdates": (Tracer, "_variable_op", drops_updates),
    "CodeChecksNoOutputs": (
        OutputChecks,
        "checked",
        lambda self, targets, function, call, node, kernel: targets + call,
    ),
}


def compiler_suite(name, target, attribute, wrong):
    class Suite(TierTests):
        device = "/device:CPU:0"

        @pytest.fixture
        def tier(self):
            return "eager"

        @pytest.fixture(autouse=True)
        def broken(self, monkeypatch):
            monkeypatch.setattr(target, attribute, wrong)

    Suite.__name__ = Suite.__qualname__ = f"Test{name}"
    return Suite


for fault, broken_part in COMPILER_FAULTS.items():
    globals()[f"Test{fault}"] = compiler_suite(fault, *broken_part)
