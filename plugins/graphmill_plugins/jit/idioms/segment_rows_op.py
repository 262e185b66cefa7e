"""The op that spreads gradients of segments over the rows of a sparse gradient."""

from __future__ import annotations

from typing import Final

from graphmill.spi import ArgDef, AttrDef, OpDef

SEGMENT_ROWS: Final = OpDef(
    name="_SegmentRows",
    input_args=(
        ArgDef(name="grad", type_attr="T"),
        ArgDef(name="segment_ids", type_attr="Tsegmentids"),
    ),
    output_args=(ArgDef(name="output", type_attr="T"),),
    attrs=(
        AttrDef(name="scale", type="string"),
        AttrDef(name="T", type="type"),
        AttrDef(name="Tsegmentids", type="type"),
    ),
    family="math",
)
"""Returns for each segment id the row of `grad` with that index, divided by the count of the id
(scale "mean"), by the square root of that ("sqrtn"), or undivided ("sum")."""
