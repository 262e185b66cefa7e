"""Attrs of which TensorFlow holds 32 bits are checked; all that are named are attrs."""

from __future__ import annotations

import pytest

from graphmill.errors import InvalidArgumentError
from graphmill.ops import attr_width
from graphmill.ops.attr_width import check_attr_widths
from graphmill.ops.op_registry import OpRegistry


def test_all_are_attrs_of_their_ops():
    ops = OpRegistry()
    for op, names in attr_width._NARROW.items():
        types = {attr.name: attr.type for attr in ops.get(op).attrs}
        assert {types[name] for name in names} <= {"int", "list(int)"}, op


@pytest.mark.parametrize("value", [1 << 31, -(1 << 31) - 1])
def test_more_bits_are_refused(value):
    with pytest.raises(InvalidArgumentError, match=r"Attr k has value .* int32") as caught:
        check_attr_widths("InTopK", {"k": value}, "node")
    assert caught.value.node == "node"
    with pytest.raises(InvalidArgumentError, match="strides"):
        check_attr_widths("Conv2D", {"strides": (1, value, 1, 1), "dilations": (1, 1, 1, 1)})


def test_what_fits_and_what_has_64_bits_passes():
    check_attr_widths("InTopK", {"k": -(1 << 31)})
    check_attr_widths("TopK", {"k": 1 << 40})
