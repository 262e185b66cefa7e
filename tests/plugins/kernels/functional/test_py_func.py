"""PyFunc calls only functions that installed distributions publish."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill.registry import PluginError

SOURCE = """
import numpy as np

def double(x):
    return x * 2

def several(x, y):
    return x + y, [b"a\\0", "ä"]

def nothing():
    CALLS.append(1)

def fails(kind):
    raise {"value": ValueError, "stop": StopIteration, "other": KeyError,
           "memory": MemoryError, "not": NotImplementedError}[kind.item().decode()]("so")

def three(x):
    return 3

def ratio(x, y):
    return np.float64(x) / y, x > y

def writes(x):
    x[0] = 7
    return x

CALLS = []
not_a_function = 5
"""
POINTS = ("double", "several", "nothing", "fails", "writes", "not_a_function", "three", "ratio")


def publish(folder, name, points, module="published_functions"):
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"mine.{point} = {module}:{point}\n" for point in points)
    (info / "entry_points.txt").write_text(f"[graphmill.functions]\n{lines}")


@pytest.fixture(autouse=True)
def functions(tmp_path, use_dists):
    """Publish the functions, and return their module."""
    (tmp_path / "published_functions.py").write_text(SOURCE)
    publish(tmp_path, "graphmill-mine", POINTS)
    use_dists(tmp_path)
    import published_functions  # type: ignore[import-not-found]

    return published_functions


def run(token, inputs, outputs, *, stateful=True):
    graph = graphmill.Graph()
    with graph.as_default():
        feeds = {f"x{i}:0": value for i, value in enumerate(inputs)}
        placeholders = [
            graph.placeholder(np.asarray(v).dtype, name=f"x{i}") for i, v in enumerate(inputs)
        ]
        result = graphmill.py_func(token, placeholders, outputs, stateful=stateful)
    with graphmill.Session(graph=graph.as_graph_def()) as session:  # it is saved by name
        names = [t.name for t in result] if isinstance(result, list) else result.name
        return session.run(names, feeds)


@pytest.mark.parametrize("stateful", [True, False])
def test_a_saved_graph_calls_a_function_by_name(stateful) -> None:
    got = run("mine.double", [np.float32([1, 2])], "float32", stateful=stateful)
    assert got.tolist() == [2.0, 4.0]


def test_a_function_is_named_by_its_entry_point(functions) -> None:
    assert run(functions.double, [np.int64(4)], "int64") == 8


def test_functions_may_return_several_results_and_strings() -> None:
    total, texts = run("mine.several", [np.float32(1), np.float32(2)], ["float32", "string"])
    assert total == 3.0
    assert texts.tolist() == [b"a\0", "ä".encode()]


def test_a_function_without_results_runs_as_a_target(functions) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        graphmill.py_func("mine.nothing", [], [], name="call")
    with graphmill.Session(graph=graph) as session:
        session.run([], targets=["call"])
        session.run([], targets=["call"])
    assert functions.CALLS == [1, 1]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("value", errors.InvalidArgumentError),
        ("stop", errors.OutOfRangeError),
        ("memory", errors.ResourceExhaustedError),
        ("not", errors.UnimplementedError),
        ("other", errors.UnknownError),
    ],
)
def test_raised_error_has_tensorflow_s_class(kind, status) -> None:
    """The error of a Python function has the class that TensorFlow gives it (clause S12)."""
    with pytest.raises(status, match=r"'mine\.fails' raised") as caught:
        run("mine.fails", [np.array(kind.encode(), object)], "float32")
    assert caught.value.op_type == "PyFunc"


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ("float64", "0-th value returned by mine.double is float32, but expects float64"),
        (["float32", "float32"], "mine.double returns 1 values, but expects to see 2 values"),
    ],
)
def test_mismatched_results_are_reported(outputs, message) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        run("mine.double", [np.float32(1)], outputs)


def test_it_cannot_write_its_inputs() -> None:
    value = np.zeros(2, np.float32)
    with pytest.raises(errors.InvalidArgumentError, match="read-only"):
        run("mine.writes", [value], "float32")
    assert value.tolist() == [0, 0]


def test_unpublished_name_lists_alternatives() -> None:
    with pytest.raises(errors.NotFoundError, match=r"did you mean 'mine\.double'") as caught:
        run("mine.doubel", [np.float32(1)], "float32")
    assert "mine.several" in str(caught.value)


def test_unpublished_function_is_never_called() -> None:
    with pytest.raises(errors.NotFoundError):
        run("os:getcwd", [], "string")
    with pytest.raises(errors.InvalidArgumentError, match="is not published"):
        graphmill.py_func(len, [], "int64")


def test_a_name_that_two_publish_is_refused(tmp_path, use_dists) -> None:
    publish(tmp_path / "more", "graphmill-other", ["double"])
    use_dists(tmp_path / "more")
    with pytest.raises(errors.FailedPreconditionError, match=r"graphmill-mine 1\.0 and graphmill"):
        run("mine.double", [np.float32(1)], "float32")


def test_a_disabled_distribution_publishes_nothing(monkeypatch) -> None:
    monkeypatch.setenv("GRAPHMILL_DISABLE_PLUGINS", "graphmill-mine")
    with pytest.raises(errors.NotFoundError, match="Published: none"):
        run("mine.double", [np.float32(1)], "float32")


def test_invalid_function_is_named(tmp_path, use_dists) -> None:
    with pytest.raises(PluginError, match=r"graphmill-mine 1\.0.*is not callable"):
        run("mine.not_a_function", [], "float32")


def run_eagerly(token, inputs, outputs):
    graph = graphmill.Graph()
    with graph.as_default():
        fetches = graphmill.py_function(token, inputs, outputs)
    with graphmill.Session(graph=graph.as_graph_def()) as session:
        return session.run([fetch.name for fetch in fetches])


def test_py_function_converts_to_the_declared_dtypes():
    x = np.float32([1, 2])
    (got,) = run_eagerly("mine.three", [x], ["float32"])
    assert (got, got.dtype) == (3.0, np.float32)
    quotient, larger = run_eagerly("mine.ratio", [x, x + 1], ["float16", "bool"])
    assert (quotient.dtype, larger.tolist()) == (np.float16, [False, False])


@pytest.mark.parametrize(("token", "types"), [("three", ["string"]), ("double", ["int32"])])
def test_py_function_refuses_lossy_conversions(token, types):
    with pytest.raises(errors.InvalidArgumentError, match="0-th value returned by"):
        run_eagerly(f"mine.{token}", [np.float32([1.5])], types)
