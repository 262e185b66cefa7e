"""Attrs of the ops that transfer tensors."""

from __future__ import annotations

import pytest

from graphmill.graph.transfer_ops import signed_incarnation


@pytest.mark.parametrize(
    ("incarnation", "signed"),
    [(1, 1), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1)],
)
def test_signed_incarnation_has_the_same_64_bits(incarnation: int, signed: int) -> None:
    assert signed_incarnation(incarnation) == signed
