"""Deliberately broken sets of kernels; see `test_seeded_faults.py`."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from graphmill import errors
from graphmill.plugin.host import Host
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.devices.device import Device, DeviceAttributes, DeviceFactory
from graphmill.testing.case import load_cases
from graphmill.testing.conformance import KernelTests


def writes_inputs(compute, x):
    result = compute(x)
    if isinstance(x, np.ndarray) and x.flags.writeable and x.size:
        x[...] = 0
    return result


def raises_wrong_class(compute, *inputs):
    try:
        return compute(*inputs)
    except (ValueError, errors.OpError) as error:
        raise errors.InternalError(str(error)) from error


def hides_errors(compute, *inputs):
    try:
        return compute(*inputs)
    except (ValueError, errors.OpError):
        return np.zeros((1, 1), getattr(inputs[0], "dtype", np.float32))


def rounds(compute, x):
    result = compute(x)
    if result.dtype.kind == "f":
        return result.astype(np.float16).astype(result.dtype)
    return result


def first_element_only(compute, x):
    result = np.array(compute(x))
    if result.size > 1:
        result.reshape(-1)[1:] = 0
    return result


def rejects_scalars(compute, x):
    if np.ndim(x) == 0:
        raise ValueError("a scalar")
    return compute(x)


def rejects_empty_inputs(compute, x):
    if not np.size(x):
        raise ValueError("an empty tensor")
    return compute(x)


# The op whose kernel is broken, and how.
FAULTS = {
    "WritesInputs": ("Neg", writes_inputs),
    "RaisesWrongClass": ("TanhGrad", raises_wrong_class),
    "HidesErrors": ("RsqrtGrad", hides_errors),
    "Rounds": ("Expm1", rounds),
    "ReturnsWrongDtype": ("Rint", lambda compute, x: compute(x).astype(np.complex128)),
    "ReturnsWrongShape": ("Acosh", lambda compute, x: np.asarray(compute(x))[None]),
    "LosesNans": ("Maximum", lambda compute, x, y: np.nan_to_num(compute(x, y))),
    "DoesNotBroadcast": ("Sub", lambda compute, x, y: x - y if np.shape(x) == np.shape(y) else x),
    "ComputesFirstElementOnly": ("Erfinv", first_element_only),
    "RejectsScalars": ("Sin", rejects_scalars),
    "RejectsEmptyInputs": ("Sign", rejects_empty_inputs),
    "SwapsOperands": ("RealDiv", lambda compute, x, y: compute(y, x)),
    "Sound": ("Ceil", lambda compute, x: compute(x)),
}


def plugin(op, change):
    class Faulty(Device):
        backends = ("numpy",)

        def namespace(self, backend):
            return np

        def to_device(self, value):
            return np.array(value)[()]

        def to_host(self, value):
            return np.array(value)[()]

        def compute_of(self, kernel):
            if kernel.op != op:
                return kernel.compute
            return functools.partial(change, kernel.compute)

    class Factory(DeviceFactory):
        def create_devices(self, config, name_prefix):
            return [Faulty(DeviceAttributes(f"{name_prefix}/device:FAULTY:0", "FAULTY"))]

    class Plugin:
        @hookimpl
        def graphmill_register_devices(self, devices):
            devices.add("FAULTY", Factory())

    return Plugin()


def suite(name, op, change):
    class Suite(KernelTests):
        device = "/device:FAULTY:0"

        def pytest_generate_tests(self, metafunc):
            if "case" in metafunc.fixturenames:  # the cases of one op: there are thousands
                cases = [case for case in load_cases(families=["math"]) if case.op == op]
                metafunc.parametrize("case", cases, ids=[case.id for case in cases])

        @pytest.fixture(scope="class")
        def host(self):
            return Host(plugins=[plugin(op, change)])

    Suite.__name__ = Suite.__qualname__ = f"Test{name}"
    return Suite


for fault, (broken_op, how) in FAULTS.items():
    globals()[f"Test{fault}"] = suite(fault, broken_op, how)
