"""Broken plugins are reported with their distribution, and the rest works."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

from graphmill import errors, proto
from graphmill.graph.builder import Graph
from graphmill.plugin.host import Host
from graphmill.registry import PluginError
from graphmill.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEAD = "from graphmill.spi import *\nfrom graphmill.spi import errors, hookimpl\n"
FACTORY = (
    HEAD
    + """
class Factory(DeviceFactory):
    def create_devices(self, config, name_prefix):
        {body}

@hookimpl
def graphmill_register_devices(devices):
    devices.add("BAD", Factory)
"""
)
EXECUTOR = (
    HEAD
    + """
class Broken(Executor):
    def run_async(self, args, done):
        raise ValueError("it broke")

class Factory(ExecutorFactory):
    def new_executor(self, params, graph):
        {body}

@hookimpl
def graphmill_register_executors(executors):
    executors.add("BAD", Factory)
"""
)
HOOK = HEAD + "@hookimpl\ndef graphmill_register_devices(devices):\n    {body}\n"

UNUSABLE = {
    "def (:": "SyntaxError",
    "import no_such_module_at_all": "No module named",
    "raise SystemExit(3)": "SystemExit: 3",
    HOOK.format(body="raise SystemExit(3)"): "SystemExit: 3",
    HOOK.format(body="raise ValueError('no')"): "ValueError: no",
    HOOK.format(body="devices.add('BAD', 'not a reference')"): "is malformed",
    HOOK.replace("(devices)", "(device)").format(body="pass"): r"expected: graphmill_register",
    HOOK.replace("_devices", "_device").format(body="pass"): "there is no hook",
    "x = 1": "implements no hook",
    "GRAPHMILL_SPI = '>=0.1,<1'\n" + HOOK.format(body="pass"): "needs graphmill.spi >=0.1,<1",
    "GRAPHMILL_SPI = 'newest'\n" + HOOK.format(body="pass"): "expected a string such as",
}
FACTORIES = {
    "raise RuntimeError('no driver')": "RuntimeError: no driver",
    "raise errors.UnavailableError('no driver')": "no driver",
    "return None": "cannot create its devices",
    "return [1]": "which is not a Device",
    "return [Device.__new__(Device)]": "cannot create its devices",
}


@pytest.fixture
def host_with(use_dists, tmp_path: Path) -> Callable[[str], Host]:
    """Return a function that creates hosts with an installed plugin of a given source."""

    def make(source: str, name: str = "bad") -> Host:
        folder = tmp_path / name
        info = folder / f"graphmill_{name}-1.2.dist-info"
        info.mkdir(parents=True)
        (folder / f"plugin_{name}.py").write_text(source)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: graphmill-{name}\nVersion: 1.2\n"
        )
        (info / "entry_points.txt").write_text(f"[graphmill.plugins]\n{name} = plugin_{name}\n")
        use_dists(folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Host()

    return make


def small(device: str = "") -> Graph:
    graph = Graph()
    with graph.as_default(), graph.device(device):
        x = graph.placeholder("float32", name="x")
        graph.create_op("Neg", [x], name="y")
    return graph


def run(host: Host, config: proto.ConfigProto | None = None, device: str = "") -> float:
    with Session(graph=small(device), host=host, config=config) as session:
        return float(session.run("y:0", {"x:0": 2.0}))


@pytest.mark.parametrize("source", UNUSABLE, ids=lambda text: UNUSABLE[text][:30])
def test_broken_plugin_is_skipped_and_named(source: str, host_with) -> None:
    host = host_with(source)
    record = next(r for r in host.plugins if r.name == "bad")
    assert (record.status, record.distribution) == ("failed", "graphmill-bad")
    assert UNUSABLE[source] in record.error
    assert run(host) == -2.0
    with pytest.raises(errors.NotFoundError, match=r"plugin 'bad' \(graphmill-bad 1\.2\)"):
        host.devices.get("BAD")


@pytest.mark.parametrize("body", FACTORIES)
def test_failing_factory_does_not_affect_other_devices(body: str, host_with) -> None:
    """A device factory that fails leaves other devices usable (clause S1)."""
    host = host_with(FACTORY.format(body=body))
    with pytest.warns(UserWarning, match=r"devices are not offered"):
        assert run(host) == -2.0


@pytest.mark.parametrize("body", FACTORIES)
def test_failing_factory_is_an_error_if_its_devices_are_requested(body: str, host_with) -> None:
    """A failing device factory is an error if the session requests its devices (clause S1)."""
    host = host_with(FACTORY.format(body=body))
    with pytest.raises(errors.OpError, match=FACTORIES[body]) as caught:
        run(host, proto.ConfigProto(device_count={"BAD": 1}))
    assert caught.value.plugin == "bad"


def test_devices_of_another_name_are_refused(host_with) -> None:
    """A plugin cannot use a built-in device's name."""
    body = "return [Thing(DeviceAttributes(name_prefix + '/device:CPU:0', 'CPU'))]"
    source = FACTORY.format(body=body) + (
        "class Thing(Device):\n    namespace = to_device = to_host = lambda self, value: value\n"
    )
    host = host_with(source)
    with pytest.warns(UserWarning, match=r"graphmill-bad.*expected a name that begins with"):
        assert run(host) == -2.0


def test_unimportable_factory_is_an_error_if_requested(host_with) -> None:
    host = host_with(HOOK.format(body="devices.add('BAD', 'nowhere.at:All')"))
    with pytest.warns(UserWarning, match="not offered"):
        assert run(host) == -2.0
    with pytest.raises(PluginError, match=r"graphmill-bad 1\.2.*No module named 'nowhere'"):
        run(host, proto.ConfigProto(device_count={"BAD": 1}))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('no')", "ValueError: no"),
        ("return 5", "which is not an Executor"),
        ("return Broken()", "it broke"),
    ],
)
def test_broken_executor_fails_only_its_sessions(body, message, host_with) -> None:
    """A broken executor fails only the sessions that select it (clause E1)."""
    host = host_with(EXECUTOR.format(body=body))
    config = proto.ConfigProto()
    config.experimental.executor_type = "BAD"
    with pytest.raises(errors.InternalError, match=f"graphmill-bad.*{message}") as caught:
        run(host, config)
    assert caught.value.plugin == "bad"
    assert run(host) == -2.0


def test_error_of_a_raising_pass_names_the_plugin(host_with) -> None:
    """An exception of a device's graph rewrite names the plugin (clause P5)."""
    body = "return [Thing(DeviceAttributes(name_prefix + '/device:BAD:0', 'BAD'))]"
    source = FACTORY.format(body=body) + (
        "import numpy\n"
        "class Thing(Device):\n"
        "    namespace = lambda self, backend: numpy\n"
        "    to_device = to_host = lambda self, value: value\n"
        "    def maybe_rewrite_graph(self, graph): raise KeyError('x')\n"
    )
    host = host_with(source)
    with pytest.raises(errors.InternalError, match="the graph rewrite of plugin 'bad'") as caught:
        run(host, device="/device:BAD:0")
    assert caught.value.plugin == "bad"
    assert run(host) == -2.0
