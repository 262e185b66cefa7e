"""Serialized reader states are restored or refused with a typed error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.io._reader import IdentityReader


def test_state_round_trips():
    reader = IdentityReader()
    reader.started = reader.finished = reader.produced = 7
    other = IdentityReader()
    other.restore(reader.state())
    assert (other.started, other.finished, other.produced) == (7, 7, 7)


@given(st.binary(max_size=30))
def test_any_bytes_are_a_state_or_refused(content):
    reader = IdentityReader()
    try:
        reader.restore(content)
    except InvalidArgumentError:
        assert (reader.started, reader.finished, reader.produced) == (0, 0, 0)


def test_numbers_that_do_not_fit_together_are_refused():
    with pytest.raises(InvalidArgumentError, match="inconsistent state"):
        IdentityReader().restore(b"\x08\x05\x10\x01")
