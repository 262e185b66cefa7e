"""Clusters on JAX devices keep values, constants and variables there (clauses P2, R2)."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import graph_def

import graphmill
from graphmill.errors import InvalidArgumentError
from graphmill.explain import explain_all
from graphmill.runtime.resources.variables import Variable
from graphmill.session.session import Session
from graphmill.testing.differential.compiled_graphs import jit_config
from graphmill_plugins._jax import JaxDevice

pytestmark = pytest.mark.jax

pytest.importorskip("jax")

DEVICE = "/device:XLA_CPU:0"
SIZE = 1 << 15
X = np.arange(SIZE, dtype=np.float32) / SIZE


class Moved:
    """The values copied to and from a device."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.to_device: list[Any] = []
        self.to_host: list[Any] = []
        for name, found in (("to_device", self.to_device), ("to_host", self.to_host)):
            monkeypatch.setattr(JaxDevice, name, self._noted(getattr(JaxDevice, name), found))

    @staticmethod
    def _noted(function: Any, found: list[Any]) -> Any:
        def call(device: Any, value: Any) -> Any:
            found.append(value.shape)
            return function(device, value)

        return call

    def clear(self) -> None:
        self.to_device.clear()
        self.to_host.clear()


class DeviceSession(Session):
    """A session whose nodes are on a JAX device if it has kernels for them."""

    def __init__(self, *nodes: str, mode: str = "tiered", **placeholders: str) -> None:
        made = graph_def(*nodes, **placeholders)
        for node in made.node:
            node.device = DEVICE if node.op != "Placeholder" else ""
        config = jit_config(mode, "XLA_CPU")
        config.graphmill.jit_after_steps = 1
        super().__init__(graph=made, config=config)

    def settled(self, fetches: Any, feeds: Any, targets: Any = ()) -> Any:
        """Run steps until all compilations have ended; return the last result."""
        for _ in range(6):
            found = self.run(fetches, feeds, targets=list(targets))
            assert graphmill.default_host().background.wait_idle(60)
        return found

    @property
    def tiers(self) -> list[str]:
        steps = explain_all(self)
        clusters = [c for step in steps for one in step.compilations.values() for c in one.clusters]
        return [one.tier for cluster in clusters for one in cluster.signatures]

    def variable(self, name: str) -> Variable:
        (device,) = self._impl.devices.matching(DEVICE)
        found: Variable = device.resource_mgr.lookup("", name, Variable)
        return found


def test_intermediate_values_stay_on_the_device_r2(monkeypatch):
    moved = Moved(monkeypatch)  # before anybody keeps the methods
    constant = "c = Const(dtype=float32, value='float32[32768] fill 2')"
    with DeviceSession(
        *(constant, "a = Mul(x, c)", "b = Tanh(a)", "w = Where(b)", "y = AddV2(b, c)"),
        "z = Neg(y)",
        x="float32[32768]",
    ) as session:
        result, where = session.settled(["z:0", "w:0"], {"x:0": X})
        assert np.allclose(result, -(np.tanh(2 * X) + 2))
        assert len(where) == SIZE - 1
        assert set(session.tiers) == {"compiled"}
        session.settled("z:0", {"x:0": X})
        for _ in range(3):
            moved.clear()
            session.run("z:0", {"x:0": X})
            assert moved.to_device == [(SIZE,)]  # what is fed, and no constant
            assert moved.to_host == [(SIZE,)]  # what is fetched


@pytest.mark.parametrize("mode", ["tiered", "eager", "deterministic"])
def test_all_tiers_give_the_same_p2(mode):
    with DeviceSession(
        "zero = Const(dtype=int32, value='int32: 0')",
        "rows = Const(dtype=int32, value='int32: [2, -1]')",
        "order = Const(dtype=int32, value='int32: [1, 0]')",
        "shaped = Reshape(x, rows)",
        "turned = Transpose(shaped, order)",
        "shape = Shape(turned)",
        "product = MatMul(shaped, turned)",
        "y = Tanh(product)",
        mode=mode,
        x="float32[6]",
    ) as session:
        x = np.arange(6, dtype=np.float32) / 10
        y, shape = session.settled(["y:0", "shape:0"], {"x:0": x})
        assert np.allclose(y, np.tanh(x.reshape(2, 3) @ x.reshape(2, 3).T))
        assert shape.tolist() == [3, 2]
        assert ("compiled" in session.tiers) == (mode != "deterministic")


COUNTER = (
    "v = VarHandleOp(dtype=float32, shape=[32768], shared_name='v')",
    "start = AssignVariableOp(v, x)",
    "k = Const(dtype=int32, value='int32: 0')",
    "rate = GatherV2(x, n, k)",
    "good = CheckNumerics(rate, message='the rate')",
    "more = Mul(x, good)",
    "add = AssignAddVariableOp(v, more)",
    "now = ReadVariableOp(v, dtype=float32, after=[add])",
    "total = Sum(now, k)",
)


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="counts prove nothing there"
)
def test_variables_stay_on_device_and_are_updated_in_place_s11():
    ones = np.ones(SIZE, np.float32)
    feeds = {"x:0": ones, "n:0": np.int64(0)}
    with DeviceSession(*COUNTER, x="float32[32768]", n="int64") as session:
        session.run([], feeds, targets=["start"])
        assert session.settled("total:0", feeds) == 7 * SIZE
        variable = session.variable("v")
        before = variable.value.unsafe_buffer_pointer()
        assert session.run("total:0", feeds) == 8 * SIZE
        assert variable.value.unsafe_buffer_pointer() == before
        held = variable.value
        assert session.run("total:0", feeds) == 9 * SIZE
        assert np.asarray(held)[0] == 8  # who holds the old value keeps it
        assert variable.value.unsafe_buffer_pointer() != before


def test_failed_check_is_the_error_of_its_node_s12():
    ones = np.ones(SIZE, np.float32)
    feeds = {"x:0": ones, "n:0": np.int64(0)}
    with DeviceSession(*COUNTER, x="float32[32768]", n="int64") as session:
        session.run([], feeds, targets=["start"])
        session.settled("total:0", feeds)
        with pytest.raises(InvalidArgumentError) as caught:
            session.run("total:0", {"x:0": ones * np.float32(np.nan), "n:0": np.int64(0)})
        assert caught.value.node == "good"
        assert session.run("total:0", feeds) == 8 * SIZE
