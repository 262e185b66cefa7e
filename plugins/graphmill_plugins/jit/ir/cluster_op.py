"""`_Cluster`, the op of a node that replaces the nodes of a cluster."""

from __future__ import annotations

from graphmill.spi import ArgDef, AttrDef, OpDef


def _op(name: str) -> OpDef:
    return OpDef(
        name=name,
        input_args=(ArgDef(name="inputs", type_list_attr="Tin"),),
        output_args=(ArgDef(name="outputs", type_list_attr="Tout"),),
        attrs=(
            AttrDef(name="Tin", type="list(type)", minimum=0),
            AttrDef(name="Tout", type="list(type)", minimum=0),
            AttrDef(name="f", type="func"),
        ),
        family="jit",
    )


STRAIGHT_LINE = _op("_StraightLine")
"""A loop that cannot be compiled, as generated code; `f` is a `ClusterAttr`, as for `_Cluster`."""

CLUSTER = _op("_Cluster")
"""`f` is a `ClusterAttr` (see `cluster_attr`). Its effects are those of its nodes. The op itself is
stateless, so that its kernel belongs to one executor and is deleted with it."""
