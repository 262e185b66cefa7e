"""Small models for batch runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import graphmill
from graphmill import ops

if TYPE_CHECKING:
    from pathlib import Path


def _write(graph: graphmill.Graph, path: Path) -> str:
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return str(path)


@pytest.fixture
def sums(tmp_path: Path) -> str:
    """A model with one input of rows of three numbers: their sum, and their doubles."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None, 3], name="x")
        ops.math.sum(x, [1], name="total")
        ops.math.mul(x, graph.constant(2.0), name="doubled")
    return _write(graph, tmp_path / "sums.pb")


@pytest.fixture
def products(tmp_path: Path) -> str:
    """A model with two inputs of one number in each row, and a factor for all rows."""
    graph = graphmill.Graph()
    with graph.as_default():
        a = graph.placeholder("float32", [None], name="a")
        b = graph.placeholder("float32", [None, 1], name="b")
        factor = graph.placeholder("float32", [], name="factor")
        product = ops.math.mul(a, ops.array.reshape(b, [-1]))
        ops.math.mul(product, factor, name="product")
    return _write(graph, tmp_path / "products.pb")


@pytest.fixture
def printing(tmp_path: Path) -> str:
    """A model that prints each batch of texts to standard output, and returns it."""
    graph = graphmill.Graph()
    with graph.as_default():
        text = graph.placeholder("string", [None], name="text")
        joined = ops.string.reduce_join(text, [0])
        printed = ops.logging.print_v2(joined, output_stream="stdout")
        with graph.control_dependencies([printed]):
            ops.array.identity(text, name="same")
    return _write(graph, tmp_path / "printing.pb")


@pytest.fixture
def scaled(tmp_path: Path) -> str:
    """A model of a number in each row, and a factor with a default."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        factor = ops.array.placeholder_with_default(np.float32(2), shape=[], name="factor")
        ops.array.placeholder_with_default(np.float32(2), shape=[], name="unused")
        ops.math.mul(x, factor, name="product")
    return _write(graph, tmp_path / "scaled.pb")


@pytest.fixture
def pictures(tmp_path: Path) -> str:
    """A model of grey pictures of 2 x 2 pixels: the sum of their pixels."""
    graph = graphmill.Graph()
    with graph.as_default():
        image = graph.placeholder("float32", [None, 2, 2, 1], name="image")
        ops.math.sum(image, [1, 2, 3], name="whole")
    return _write(graph, tmp_path / "pictures.pb")


@pytest.fixture
def texts(tmp_path: Path) -> str:
    """A model of texts in a column: their length, and the text again."""
    graph = graphmill.Graph()
    with graph.as_default():
        text = graph.placeholder("string", [None, 1], name="text")
        ops.string.string_length(text, name="length")
        ops.array.identity(text, name="same")
    return _write(graph, tmp_path / "texts.pb")


@pytest.fixture
def checked(tmp_path: Path) -> str:
    """A model that fails if a number of its batch is negative."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        is_good = ops.math.all(ops.math.greater_equal(x, graph.constant(0.0)), [0])
        check = graphmill.Assert(is_good, [x])
        with graph.control_dependencies([check]):
            ops.math.sqrt(x, name="root")
    return _write(graph, tmp_path / "checked.pb")
