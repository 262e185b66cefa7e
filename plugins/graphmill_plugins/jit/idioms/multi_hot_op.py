"""`_MultiHot`, the op that counts indices instead of summing one-hot vectors."""

from __future__ import annotations

from typing import Final

from graphmill.spi import ArgDef, AttrDef, OpDef

MULTI_HOT: Final = OpDef(
    name="_MultiHot",
    input_args=(ArgDef(name="indices", type_attr="TI"),),
    output_args=(ArgDef(name="output", type_attr="dtype"),),
    attrs=(
        AttrDef(name="depth", type="int"),
        AttrDef(name="axes", type="list(int)"),
        AttrDef(name="keep_dims", type="bool"),
        AttrDef(name="dtype", type="type"),
        AttrDef(name="TI", type="type"),
    ),
    family="array",
)
"""Counts how often each of `0 <= i < depth` occurs in `indices`: the sum over `axes` of the result
that `OneHot` would return, with a new last axis. `axes` may be negative."""
