"""CalibrationStatisticsSaver: the statistics equal those of TensorFlow 2.21, and bad inputs."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import proto
from graphmill.errors import AbortedError, InvalidArgumentError

STEPS = [
    [np.float32(-1), np.float32(3), np.array([1, 2, 3, 4])],
    [np.float32(-2.5), np.float32(0.75), np.array([8, 0, 1, 5])],
]
SHAPES = {"a": ("float32", []), "b": ("float32", []), "c": ("int64", [None])}


def _session(graphmill_host, path, methods=(1,), shapes=SHAPES, ids=("x",)):
    graph = graphmill.Graph(ops=graphmill_host.ops)
    with graph.as_default():
        inputs = [graph.placeholder(*kind, name=name) for name, kind in shapes.items()]
        attrs = {"ids": ids, "calibration_methods": methods, "output_file_path": str(path)}
        graph.create_op("CalibrationStatisticsSaver", inputs, attrs, name="save")
    return graphmill.Session(graph=graph, host=graphmill_host)


def _feeds(step):
    return {f"{name}:0": value for name, value in zip("abc", step, strict=True)}


def _written(graphmill_host, path, method):
    with _session(graphmill_host, path, (method,)) as session:
        for step in STEPS:
            session.run("save", _feeds(step))
    return proto.CalibrationStatisticsMap.FromString(path.read_bytes()).statistics["x"]


def test_smallest_and_largest_elements_are_those_of_all_steps(graphmill_host, tmp_path):
    found = _written(graphmill_host, tmp_path / "s.pb", 1).min_max_statistics
    assert (found.global_min, found.global_max) == (-2.5, 3)


def test_averages_have_sums_and_a_count(graphmill_host, tmp_path):
    found = _written(graphmill_host, tmp_path / "s.pb", 2).average_min_max_statistics
    assert (found.min_sum, found.max_sum, found.num_samples) == (-3.5, 3.75, 2)


@pytest.mark.parametrize("method", [3, 4, 5, 6])
def test_histogram_grows_to_the_left(graphmill_host, tmp_path, method):
    found = _written(graphmill_host, tmp_path / "s.pb", method).histogram_statistics
    assert (found.bin_width, found.lower_bound) == (1, -3)
    assert list(found.hist_freq) == [8, 0, 2, 7, 3, 4]


def test_file_is_complete_after_each_step(graphmill_host, tmp_path):
    path = tmp_path / "s.pb"
    with _session(graphmill_host, path) as session:
        session.run("save", _feeds(STEPS[0]))
        statistics = proto.CalibrationStatisticsMap.FromString(path.read_bytes()).statistics
        assert statistics["x"].min_max_statistics.global_max == 3


@pytest.mark.parametrize("ends", [(2, 2), (1, np.inf), (np.nan, 1)])
def test_histogram_without_a_finite_range_is_refused(graphmill_host, tmp_path, ends):
    with _session(graphmill_host, tmp_path / "s.pb", (3,)) as session:
        step = [*(np.float32(end) for end in ends), np.array([1, 2])]
        with pytest.raises(InvalidArgumentError, match="finite range"):
            session.run("save", _feeds(step))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ids": ("x", "y"), "methods": (1,)}, "same size"),
        ({"shapes": {"a": ("float32", [])}}, "three times"),
        ({"shapes": {**SHAPES, "b": ("int64", [])}}, "`max` must have float32"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(graphmill_host, tmp_path, options, message):
    with (
        _session(graphmill_host, tmp_path / "s.pb", **options) as session,
        pytest.raises(AbortedError, match=message),
    ):
        session.run("save", {})


def test_ends_must_be_scalars(graphmill_host, tmp_path):
    shapes = {**SHAPES, "a": ("float32", None)}
    with _session(graphmill_host, tmp_path / "s.pb", shapes=shapes) as session:
        step = [np.zeros(2, np.float32), *STEPS[0][1:]]
        with pytest.raises(InvalidArgumentError, match="need scalars"):
            session.run("save", _feeds(step))
