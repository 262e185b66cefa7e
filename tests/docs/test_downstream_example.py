"""The example package of ops works from a GraphDef, from Python and from the command line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

import graphmill

pytestmark = pytest.mark.divided

SOURCE = Path(__file__).parents[2] / "docs" / "examples" / "graphmill-downstream"
X = np.float32([-2, -0.25, 0.25, 2])
SHRUNK = [-1.5, 0, 0, 1.5]


@pytest.fixture
def host(use_dists, tmp_path: Path) -> graphmill.Host:
    meta = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]
    info = tmp_path / f"graphmill_downstream-{meta['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {meta['name']}\nVersion: {meta['version']}\n")
    lines = []
    for group, points in meta["entry-points"].items():
        lines += [f"[{group}]\n", *(f"{name} = {value}\n" for name, value in points.items())]
    (info / "entry_points.txt").write_text("".join(lines))
    use_dists(SOURCE, tmp_path)
    return graphmill.Host()


def graph_with_op(host: graphmill.Host, device: str = "") -> graphmill.Graph:
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default(), graph.device(device):
        x = graph.placeholder("float32", [4], name="x")
        graph.create_op("Downstream>SoftShrink", [x], {"margin": 0.5}, name="y")
    return graph


def test_graphs_run_from_python_and_from_a_graph_def(host) -> None:
    for graph in (graph_with_op(host), graph_with_op(host).as_graph_def()):
        with graphmill.Session(graph=graph, host=host) as session:
            assert session.run("y:0", {"x:0": X}).tolist() == SHRUNK


@pytest.mark.jax
def test_plugins_own_kernel_is_used_on_jax(host) -> None:
    config = graphmill.ConfigProto(device_count={"XLA_CPU": 1})
    graph = graph_with_op(host, "/device:XLA_CPU:0")
    with graphmill.Session(graph=graph, host=host, config=config) as session:
        assert session.run("y:0", {"x:0": X}).tolist() == SHRUNK
    choice = host.kernels.find(
        host.ops.get("Downstream>SoftShrink"), {"T": graphmill.float32}, "XLA_CPU", ("jax",)
    )
    assert choice.definition.source == "graphmill_downstream.jax_kernels.soft_shrink"


def test_graphs_run_from_the_command_line(host, tmp_path, capsys) -> None:
    from graphmill.cli.main import run_command_line
    from graphmill.cli.options import Settings

    model = tmp_path / "model.pb"
    model.write_bytes(graph_with_op(host).as_graph_def().SerializeToString())
    code = run_command_line(["run", str(model), "x=[-2, 0, 0, 2]"], Settings(host=host))
    out, err = capsys.readouterr()
    assert code == 0, err
    assert "1.5" in out


def test_plugin_kernel_replaces_the_built_in_one(host) -> None:
    choice = host.kernels.find(host.ops.get("Relu6"), {"T": graphmill.float32}, "CPU", ("numpy",))
    assert choice.definition.source == "graphmill_downstream.kernels.relu6"


def test_gradients_go_through_its_op(host) -> None:
    graph = graph_with_op(host)
    with graph.as_default():
        y = graph.outputs_of(graph.node("y"))[0]
        (dx,) = graphmill.gradients(y, [graph.outputs_of(graph.node("x"))[0]], host=host)
    with graphmill.Session(graph=graph, host=host) as session:
        assert session.run(dx, {"x:0": X}).tolist() == [1, 0, 0, 1]


def test_its_function_is_called_by_name(host) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("string", [None], name="x")
        graphmill.py_func("downstream.shout", [x], "string", name="y")
    with graphmill.Session(graph=graph.as_graph_def(), host=host) as session:
        got = session.run("y:0", {"x:0": np.array([b"a", b"b"], object)})
    assert got.tolist() == [b"A", b"B"]


def test_its_shape_is_known_before_it_runs(host) -> None:
    (x, y) = (graph_with_op(host).get_tensor_by_name(f"{name}:0") for name in "xy")
    assert x.shape == y.shape == (4,)
