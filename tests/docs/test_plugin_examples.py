"""The examples of the how-to pages run, and the pages show them."""

from __future__ import annotations

import importlib.util
import logging
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill.plugin.step_observers import StepInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    UseDists = Callable[..., None]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
FLOAT = graphmill.dtypes.float32.enum


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def host_with(name: str) -> tuple[graphmill.Host, ModuleType]:
    plugin = load(EXAMPLES / f"{name}.py")
    return graphmill.Host([plugin]), plugin


def graph_def(*nodes: dict[str, Any], device: str = "") -> graphmill.GraphDef:
    """Return a graph of a placeholder `x` and these float nodes: op, name, input, other attrs."""
    graph = graphmill.GraphDef()
    graph.node.add(name="x", op="Placeholder", device=device).attr["dtype"].type = FLOAT
    for node in nodes:
        added = graph.node.add(name=node["name"], op=node["op"], input=node["input"], device=device)
        added.attr["T"].type = FLOAT
        for attr, text in node.get("strings", {}).items():
            added.attr[attr].s = text
    return graph


RELU6 = {"op": "Relu6", "name": "y", "input": ["x"]}


def test_kernel_is_chosen_over_the_built_in_one() -> None:
    host, plugin = host_with("kernel_plugin")
    attrs = {"T": graphmill.dtypes.float32}
    choice = host.kernels.find(host.ops.get("Relu6"), attrs, "CPU", ("numpy",))
    assert choice.definition.function is plugin.relu6


def test_kernel_computes() -> None:
    host, _ = host_with("kernel_plugin")
    with graphmill.Session(graph=graph_def(RELU6), host=host) as session:
        result = session.run("y:0", {"x:0": np.float32([-1, 3, 9])})
    assert result.tolist() == [0, 3, 6]
    assert result.dtype == np.float32


def test_device_is_listed_and_runs_its_nodes() -> None:
    host, _ = host_with("device_plugin")
    graph = graph_def({"op": "Neg", "name": "y", "input": ["x"]}, device="/device:TOY:0")
    with graphmill.Session(graph=graph, host=host) as session:
        names = [device.name for device in session.list_devices()]
        assert "/job:localhost/replica:0/task:0/device:TOY:0" in names
        metadata = graphmill.RunMetadata()
        options = graphmill.RunOptions(trace_level=graphmill.RunOptions.FULL_TRACE)
        feed = {"x:0": np.float32(3)}
        assert session.run("y:0", feed, options=options, run_metadata=metadata) == -3
    devices = [stats.device for stats in metadata.step_stats.dev_stats]
    assert devices == ["/job:localhost/replica:0/task:0/device:TOY:0"]


def test_device_count_is_respected() -> None:
    host, _ = host_with("device_plugin")
    config = graphmill.ConfigProto(device_count={"TOY": 3})
    with graphmill.Session(config=config, host=host) as session:
        assert sum("TOY" in device.name for device in session.list_devices()) == 3


def test_executor_runs_a_graph_with_state() -> None:
    host, plugin = host_with("executor_plugin")
    made: list[object] = []
    original = plugin.SequentialExecutor.__init__

    def counting(self: object, *arguments: object) -> None:
        made.append(self)
        original(self, *arguments)

    plugin.SequentialExecutor.__init__ = counting
    config = graphmill.ConfigProto()
    config.experimental.executor_type = "SEQUENTIAL"
    with graphmill.Session(graph=graph_def(RELU6), config=config, host=host) as session:
        assert session.run("y:0", {"x:0": np.float32(9)}) == 6
        assert session.run("y:0", {"x:0": np.float32(2)}) == 2
    assert len(made) == 1


def test_executor_reports_the_node_of_an_error() -> None:
    host, _ = host_with("executor_plugin")
    config = graphmill.ConfigProto()
    config.experimental.executor_type = "SEQUENTIAL"
    check = {"op": "CheckNumerics", "name": "y", "input": ["x"], "strings": {"message": b"oh"}}
    with (
        graphmill.Session(graph=graph_def(check), config=config, host=host) as session,
        pytest.raises(graphmill.errors.InvalidArgumentError) as caught,
    ):
        session.run("y:0", {"x:0": np.float32(np.nan)})
    assert "node y" in str(caught.value)


def test_pass_takes_nodes_out() -> None:
    host, _ = host_with("pass_plugin")
    check = {"op": "CheckNumerics", "name": "c", "input": ["x"], "strings": {"message": b"oh"}}
    graph = graph_def(check, {"op": "Neg", "name": "y", "input": ["c", "^c"]})
    with graphmill.Session(graph=graph, host=host) as session:
        assert np.isnan(session.run("y:0", {"x:0": np.float32(np.nan)}))


def test_observer_warns_of_slow_steps(caplog: pytest.LogCaptureFixture) -> None:
    host, _ = host_with("observer_plugin")
    assert host.step_observers is not None
    step = StepInfo(7, "mine", [], [], [])
    with caplog.at_level(logging.WARNING):
        host.step_observers.finished(step, 0.1)
        host.step_observers.finished(step, 2.0)
    assert caplog.messages == ["step 7 took 2.0 s"]


class TestHelloDistribution:
    """The distribution of the page, made to look installed."""

    @pytest.fixture
    def host(self, use_dists: UseDists, tmp_path: Path) -> graphmill.Host:
        source = EXAMPLES / "graphmill-hello"
        project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
        info = tmp_path / f"graphmill_hello-{project['version']}.dist-info"
        info.mkdir()
        requires = "".join(f"Requires-Dist: {item}\n" for item in project["dependencies"])
        head = f"Name: {project['name']}\nVersion: {project['version']}\n{requires}"
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\n{head}")
        points = project["entry-points"]["graphmill.plugins"]
        lines = [f"{name} = {value}\n" for name, value in points.items()]
        (info / "entry_points.txt").write_text("".join(["[graphmill.plugins]\n", *lines]))
        use_dists(source, tmp_path)
        return graphmill.Host()

    def test_its_kernel_runs(self, host: graphmill.Host) -> None:
        with graphmill.Session(graph=graph_def(RELU6), host=host) as session:
            assert session.run("y:0", {"x:0": np.float32(9)}) == 6
        attrs = {"T": graphmill.dtypes.float32}
        choice = host.kernels.find(host.ops.get("Relu6"), attrs, "CPU", ("numpy",))
        assert "graphmill-hello 0.1" in str(choice.owner)

    def test_its_command_runs(self, host: graphmill.Host) -> None:
        testing = pytest.importorskip("click.testing")
        result = testing.CliRunner().invoke(host.commands.get("hello"), ["Ada"])
        assert result.output == "hello, Ada\n"


def test_pages_show_the_files() -> None:
    assert load(ROOT / "tools" / "include_examples.py").main(["--check"]) == 0


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*_plugin.py")), ids=lambda file: file.stem)
def test_every_example_is_shown(file: Path) -> None:
    pages = (ROOT / "docs").rglob("*.md")
    assert any(f"docs/examples/{file.name} -->" in page.read_text("utf-8") for page in pages)


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("*.py")), ids=lambda file: file.name)
def test_examples_import_only_the_plugin_interface(file: Path) -> None:
    """Gradients may also import `graphmill.ops`, to build nodes."""
    lines = file.read_text("utf-8").splitlines()
    used = [line.split()[1] for line in lines if line.lstrip().startswith(("import ", "from "))]
    ours = {name for name in used if name.partition(".")[0] in ("graphmill", "graphmill_plugins")}
    assert all(f"{name}.".startswith(("graphmill.spi.", "graphmill.ops.")) for name in ours)
