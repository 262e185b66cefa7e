"""How long a list is after the loop that it grows in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill_plugins.jit.tracing.elements import Elements, is_known
from graphmill_plugins.jit.tracing.loop_shape import length_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.graph.function_body import FunctionBody
    from graphmill_plugins.jit.tracing.loop_shape import Turns


def of_known_lengths(
    body: FunctionBody, args: Sequence[Any], results: Sequence[Any], turns: Turns
) -> list[Any]:
    """Return what a loop gives, its lists with the lengths that they have for sure.

    Args:
        body: of the loop.
        args, results: the first and last values.
        turns: how often it turns.
    """
    return [
        _of_known_length(body, index, before, result, args, turns)
        if isinstance(before, Elements) and isinstance(result, Elements)
        else result
        for index, (before, result) in enumerate(zip(args, results, strict=True))
    ]


def _of_known_length(
    body: FunctionBody,
    index: int,
    before: Elements,
    after: Elements,
    args: Sequence[Any],
    turns: Turns,
) -> Elements:
    first = before.size if before.length is None else before.length
    if after.length is None or not (isinstance(first, int) or is_known(first)):
        return after
    length = length_after(body, index, int(first), args, turns)
    return after if length is None else replace(after, length=np.int32(length))
