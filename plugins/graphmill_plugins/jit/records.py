"""How the signatures of a cluster are told in records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill_plugins.jit.signature import Inputs

_MOST_SHOWN: Final = 8
_LONGEST_VALUE: Final = 40


def signature_text(inputs: Inputs, values: Sequence[Any]) -> str:
    """Return the signature of some inputs for people: `float32[2,3], int32[2]=[4 5], 12 variables`.

    Args:
        inputs: what the inputs of the cluster are.
        values: one for each input.
    """
    parts = [
        _array(values[index], is_known=index in inputs.known)
        for index in inputs.arrays[:_MOST_SHOWN]
    ]
    more = len(inputs.arrays) - _MOST_SHOWN
    if more > 0:
        parts.append(f"{more} more")
    count = len(inputs.handles)
    if count:
        parts.append(f"{count} variable{'s' if count > 1 else ''}")
    return ", ".join(parts) or "no inputs"


def _array(value: Any, *, is_known: bool) -> str:
    array = np.asarray(value)
    text = f"{array.dtype}[{','.join(map(str, array.shape))}]"
    if not is_known:
        return text
    shown = np.array2string(array, threshold=8, edgeitems=2).replace("\n", "")
    return f"{text}={shown[:_LONGEST_VALUE]}"
