"""Checks for the ranges of random integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.spi import Check, Lowering, LoweringTable, errors

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value


def range_is_not_empty(xp: ArrayNamespace, *inputs: Value) -> Value:
    """Check that there is an integer between the limits, the last two inputs."""
    low, high = inputs[-2:]
    return xp.all(low < high)


LOWERINGS: Final = LoweringTable(
    (
        Lowering(
            ("StatelessRandomUniformInt", "StatelessRandomUniformIntV2"),
            checks=(Check(range_is_not_empty, errors.InvalidArgumentError),),
        ),
    )
)
