"""Attrs that kernels read as int32 are checked, for TensorFlow's ops and a plugin's."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.ops.attrs.attr_width import check_attr_widths, listed_int32_attrs
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.ops.definition.op_traits import OpTraits
from graphmill.spi import kernel

OPS = OpRegistry()


@pytest.mark.parametrize("name", sorted(listed_int32_attrs()))
def test_all_listed_are_traits_of_their_ops(name: str) -> None:
    assert OPS.get(name).traits.int32_attrs == listed_int32_attrs()[name]


@pytest.mark.parametrize("value", [1 << 31, -(1 << 31) - 1])
def test_more_bits_are_refused(value: int) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Attr k has value .* int32") as caught:
        check_attr_widths(OPS.get("InTopK"), {"k": value}, "node")
    assert caught.value.node == "node"
    assert caught.value.op_type == "InTopK"
    with pytest.raises(InvalidArgumentError, match="strides"):
        check_attr_widths(
            OPS.get("Conv2D"), {"strides": (1, value, 1, 1), "dilations": (1, 1, 1, 1)}
        )


def test_fitting_and_64_bit_values_pass() -> None:
    check_attr_widths(OPS.get("InTopK"), {"k": -(1 << 31)})
    check_attr_widths(OPS.get("TopK"), {"k": 1 << 40})


class Scales:
    """A plugin whose op has an int32 and an int64 attr."""

    @graphmill.hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        y = ArgDef("y", dtypes.int64)
        attrs = (AttrDef("narrow", "int"), AttrDef("wide", "int"))
        ops.add(OpDef("Mine>Scale", (), (y,), attrs), traits=OpTraits(int32_attrs=("narrow",)))

    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        kernels.add(scale)


@kernel("Mine>Scale")
def scale(xp: Any, narrow: int, wide: int) -> Any:
    return xp.int64(narrow + wide)


def test_plugin_attr_declared_32_bit_is_checked() -> None:
    host = graphmill.Host(plugins=[Scales()])
    graph = graphmill.Graph(host.ops)
    graph.create_op("Mine>Scale", [], {"narrow": 1, "wide": 1 << 40}, "fits")
    graph.create_op("Mine>Scale", [], {"narrow": 1 << 40, "wide": 1}, "wrong")
    with graphmill.Session(graph=graph, host=host) as session:
        assert session.run("fits:0") == (1 << 40) + 1
        with pytest.raises(InvalidArgumentError, match=r"Attr narrow has value .* int32") as caught:
            session.run("wrong:0")
    assert caught.value.node == "wrong"
