"""Addresses of tasks."""

from __future__ import annotations

import pytest

from graphmill import proto
from graphmill.errors import InvalidArgumentError
from graphmill_plugins._server.address import Address, address_of, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7001", Address("127.0.0.1", 7001)),
        ("ps-0.training:0", Address("ps-0.training", 0)),
        ("[::1]:22", Address("::1", 22)),
    ],
)
def test_an_address_is_parsed_and_written(text, address):
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:x", "::1:1", "h:65536", "h:-1"])
def test_a_malformed_address_is_refused(text):
    with pytest.raises(InvalidArgumentError, match="is not an address"):
        parse_address(text)


def test_server_def_port_overrides_cluster_port():
    server_def = proto.ServerDef(job_name="ps", task_index=1, port=99)
    server_def.cluster.job.add(name="ps").tasks[1] = "127.0.0.1:5"
    assert address_of(server_def) == Address("127.0.0.1", 99)
