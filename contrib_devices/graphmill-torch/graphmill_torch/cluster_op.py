"""The cluster op: a node that replaces a group of nodes with PyTorch kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import ArgDef, AttrDef, FuncAttr, OpDef
from graphmill_torch import CLUSTER_OP

if TYPE_CHECKING:
    from graphmill_torch.program import Program

CLUSTER = OpDef(
    CLUSTER_OP,
    input_args=(ArgDef("inputs", type_list_attr="Tin"),),
    output_args=(ArgDef("outputs", type_list_attr="Tout"),),
    attrs=(
        AttrDef("Tin", "list(type)", minimum=0),
        AttrDef("Tout", "list(type)", minimum=0),
        AttrDef("f", "func"),
    ),
)
"""`f` is a `ProgramAttr`. The op exists only in the graphs of a session; it is never saved."""


class ProgramAttr(FuncAttr):
    """The program that a cluster runs; its `name` is not a function of the graph's library.

    Programs are equal only to themselves.
    """

    __slots__ = ("program",)

    def __init__(self, program: Program) -> None:
        super().__init__("program")
        self.program = program

    __eq__ = object.__eq__
    __hash__ = object.__hash__
