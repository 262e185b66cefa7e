"""Model folders are run and compared with stored results."""

from __future__ import annotations

import json

import numpy as np
import pytest

from graphmill import dtypes, proto
from graphmill.ops.attrs.attr_value import attr_to_proto
from graphmill.testing.model_case import ModelCase, model_folders

X = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


@pytest.fixture
def make(tmp_path):
    """Return a function that creates cases of the graph y = -x with a changed description."""

    def made(expected=-X[0], fed=X[0], **changes):
        graph = proto.GraphDef()
        attr_to_proto(dtypes.float32, graph.node.add(name="x", op="Placeholder").attr["dtype"])
        attr_to_proto(dtypes.float32, graph.node.add(name="y", op="Neg", input=["x"]).attr["T"])
        folder = tmp_path / "negate"
        folder.mkdir()
        (folder / "graph.pb").write_bytes(graph.SerializeToString())
        spec = {
            "name": "negate",
            "kind": "graph",
            "feeds": [{"name": "x:0", "dtype": "float32", "shape": [2]}],
            "fetches": ["y:0"],
            "compare": ["allclose"],
            **changes,
        }
        (folder / "case.json").write_text(json.dumps(spec))
        np.savez(folder / "feeds.npz", **(fed if isinstance(fed, dict) else {"f0": fed}))
        results = expected if isinstance(expected, dict) else {"e0": expected}
        np.savez(folder / "expected.npz", **results)
        return ModelCase(folder, tmp_path)

    return made


def test_wrong_results_are_described(make, graphmill_host):
    case = make()
    with case.session(graphmill_host) as session:
        assert case.run_step(session, 0).problem == ""
    assert "largest error" in case.check([X[0]], 0).problem
    assert (
        case.check([-X[0].astype(np.float64)], 0).problem == "y:0: dtype float64, expected float32"
    )
    assert "shape" in case.check([X], 0).problem
    assert case.check([np.array([np.nan, -2], np.float32)], 0).problem


@pytest.mark.parametrize("mode", ["allclose", "stats"])
def test_imaginary_parts_are_compared(make, mode):
    expected = np.array([1 + 2j, 3 + 4j], np.complex64)
    case = make(expected=expected, compare=[mode])
    assert case.check([expected], 0).problem == ""
    assert "largest error" in case.check([expected.conj()], 0).problem


def test_steps_take_their_batches(make, graphmill_host):
    case = make(expected=-X, fed=X, batches=2, steps=2)
    with case.session(graphmill_host) as session:
        assert [case.run_step(session, step).problem for step in range(case.steps)] == ["", ""]
    assert case.feeds(3)["x:0"].tolist() == [3, 4]


def test_ragged_feeds_stand_one_by_one(make):
    expected = {"e0_0": -X[0], "e0_1": -X[1]}
    fed = {"f0_0": X[0], "f0_1": X[1]}
    case = make(expected=expected, fed=fed, ragged=True, batches=2, steps=2)
    assert case.feeds(1)["x:0"].tolist() == [3, 4]
    assert case.check([-X[1]], 1).problem == ""


def test_results_may_be_compared_by_statistics_shape_or_bits(make):
    case = make(compare=["stats"], rtol=1e-6)
    assert case.check([-X[0][::-1]], 0).problem == ""
    case.spec["compare"] = ["shape"]
    assert case.check([X[1]], 0).problem == ""
    case.spec["compare"] = ["exact"]
    assert case.check([X[1]], 0).problem == "y:0: 2 of 2 values differ"


def test_strings_are_compared_as_bytes(make):
    case = make(expected=np.array([b"a", b"b"]))
    assert case.check([np.array([b"a", b"b"], object)], 0).problem == ""
    assert case.check([np.array([b"a", b"c"], object)], 0).problem == "y:0: strings differ"


def test_paths_are_in_the_scratch_folder(make, tmp_path):
    case = make(fed={}, feeds=[{"name": "p:0", "dtype": "string", "path": "{tmp}/a"}])
    assert case.feeds(0)["p:0"].item() == f"{tmp_path}/a".encode()


def test_folders_are_found(make, tmp_path):
    make()
    assert [folder.name for folder in model_folders(tmp_path)] == ["negate"]
