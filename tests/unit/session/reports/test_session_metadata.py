"""Names and versions of sessions, and options that a config forbids."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import errors


@pytest.fixture
def host() -> graphmill.Host:
    return graphmill.Host()


def named(version: int) -> graphmill.ConfigProto:
    config = graphmill.ConfigProto()
    config.experimental.session_metadata.name = "model"
    config.experimental.session_metadata.version = version
    return config


def session_of(host: graphmill.Host, config: Any = None) -> graphmill.Session:
    graph = graphmill.Graph()
    with graph.as_default():
        graph.constant(1.0, name="y")
    return graphmill.Session(graph=graph, config=config, host=host)


def test_open_sessions_of_a_host_differ_in_name_or_version(host: graphmill.Host) -> None:
    with session_of(host, named(1)), session_of(host, named(2)), session_of(host):
        with pytest.raises(errors.InvalidArgumentError, match=r"already been created.*version 1"):
            session_of(host, named(1))
        session_of(graphmill.Host(), named(1)).close()  # another host
    with session_of(host, named(1)) as session:
        assert session.run("y:0") == 1


def test_refused_session_frees_its_resources(host: graphmill.Host) -> None:
    with session_of(host, named(1)):
        before = len(host.sessions.snapshot())
        with pytest.raises(errors.InvalidArgumentError):
            session_of(host, named(1))
        assert len(host.sessions.snapshot()) == before


def test_versions_are_not_negative(host: graphmill.Host) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="shouldn't be negative"):
        session_of(host, named(-1))


@pytest.mark.parametrize("options", [None, graphmill.RunOptions(trace_level=3)])
def test_run_metadata_names_the_session(host: graphmill.Host, options: Any) -> None:
    metadata = graphmill.RunMetadata()
    with session_of(host, named(3)) as session:
        session.run("y:0", None, options, metadata)
    assert (metadata.session_metadata.name, metadata.session_metadata.version) == ("model", 3)


def test_metadata_of_a_dropped_session_is_free_again(host: graphmill.Host) -> None:
    session = session_of(host, named(4))
    session.run("y:0")
    with pytest.raises(errors.InvalidArgumentError, match="has already been created"):
        session_of(host, named(4))
    del session
    with session_of(host, named(4)) as other:
        assert other.run("y:0") == 1


def test_metadata_of_unnamed_sessions_is_empty(host: graphmill.Host) -> None:
    metadata = graphmill.RunMetadata()
    with session_of(host) as session:
        session.run("y:0", run_metadata=metadata)
    assert not metadata.HasField("session_metadata")


def test_partition_graphs_may_be_disabled(host: graphmill.Host) -> None:
    config = graphmill.ConfigProto()
    config.experimental.disable_output_partition_graphs = True
    with session_of(host, config) as session:
        assert session.run("y:0") == 1
        with pytest.raises(errors.InvalidArgumentError, match="disable_output_partition_graphs"):
            session.run("y:0", None, graphmill.RunOptions(output_partition_graphs=True))
