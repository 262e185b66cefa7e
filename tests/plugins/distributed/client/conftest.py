"""A master in this process, a graph, and a session on the master."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import graphmill
from graphmill import ops

_FILE = Path(__file__).with_name("fake_master.py")
_SPEC = importlib.util.spec_from_file_location("fake_master", _FILE)
fake_master = importlib.util.module_from_spec(_SPEC)
sys.modules["fake_master"] = fake_master
_SPEC.loader.exec_module(fake_master)


@pytest.fixture
def master():
    master = fake_master.FakeMaster()
    yield master
    master.stop()


@pytest.fixture
def graph():
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [-1], name="x")
        ops.array.identity(x, name="y")
        ops.math.add_v2(x, x, name="twice")
        s = graph.placeholder("string", None, name="s")
        ops.array.identity(s, name="t")
        ops.control_flow.no_op(name="nothing")
    return graph


@pytest.fixture
def session(master, graph):
    with graphmill.Session(master.target, graph=graph) as session:
        yield session
