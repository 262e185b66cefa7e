"""`graphmill run --device --executor` selects device and executor."""

from __future__ import annotations

import json

import numpy as np
import pytest

from graphmill import errors
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.devices.device import Device, DeviceAttributes, DeviceFactory

pytest.importorskip("PIL")


class ToyPlugin:
    """A device with given backends that records its kernels."""

    def __init__(self, *backends: str) -> None:
        self.ran: list[str] = []
        plugin = self

        class Toy(Device):
            def namespace(self, backend):
                return np

            def to_device(self, value):
                return np.array(value)[()]

            def to_host(self, value):
                return np.array(value)[()]

            def compute_of(self, kernel):
                plugin.ran.append(kernel.op)
                return kernel.compute

        class Factory(DeviceFactory):
            def create_devices(self, config, name_prefix):
                names = [
                    f"{name_prefix}/device:TOY:{i}"
                    for i in range(config.device_count.get("TOY", 0))
                ]
                return [Toy(DeviceAttributes(name, "TOY")) for name in names]

        Toy.backends = backends
        self.factory = Factory

    @hookimpl
    def graphmill_register_devices(self, devices):
        devices.add("TOY", self.factory)


@pytest.fixture
def seven(digits) -> str:
    return f"image=@{digits / 'seven.png'}"


def classes(outcome):
    outputs = json.loads(outcome.out)["outputs"]
    return next(v for k, v in outputs.items() if k.startswith("classes"))["value"]


@pytest.mark.parametrize("model", ["digits_frozen.pb", "saved_model_tf1", "saved_model_tf2"])
@pytest.mark.parametrize("backend", ["numpy", "of_its_own"])
def test_nodes_run_on_the_device(model, backend, digits, seven, graphmill_cli, make_host) -> None:
    """Nodes run on the selected device, also in functions, if it has their kernels (clause P1)."""
    toy = ToyPlugin(backend)
    arguments = (str(digits / model), seven, "--device", "TOY", "--json")
    outcome = graphmill_cli("run", *arguments, host=make_host(toy))
    assert outcome.code == 0, outcome.err
    assert classes(outcome) == [7]
    assert "Relu" in toy.ran
    assert ("Conv2D" in toy.ran) == (backend == "numpy")


def test_an_executor_is_chosen(digits, seven, graphmill_cli) -> None:
    """The selected executor is used: its refusal of control flow is reported (clause E1)."""
    arguments = (str(digits / "digits_frozen.pb"), seven, "--executor")
    outcome = graphmill_cli("run", *arguments, "SINGLE_THREADED_EXECUTOR", "--json")
    assert outcome.code == 0
    assert classes(outcome) == [7]


def test_both_arrive_in_the_session(make_host) -> None:
    from graphmill.models.placement import session_placement

    host, config = session_placement(make_host(ToyPlugin("numpy")), "TOY", "INLINE")
    assert config is not None
    assert config.experimental.executor_type == "INLINE"
    assert config.device_count["TOY"] == 1
    assert host.devices.priority("TOY") > host.devices.priority("CPU")
    with pytest.raises(errors.NotFoundError):
        session_placement(host, None, "NONE_SUCH")


@pytest.mark.parametrize(
    ("option", "name", "near"), [("--device", "CPX", "'CPU'"), ("--executor", "INLIN", "'INLINE'")]
)
def test_unknown_name_lists_alternatives(option, name, near, digits, seven, graphmill_cli) -> None:
    outcome = graphmill_cli("run", str(digits / "digits_frozen.pb"), seven, option, name)
    assert outcome.code == 3
    assert f"did you mean {near}" in outcome.err
