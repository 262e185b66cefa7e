"""Options of `gradients`: aggregation, gating and placement of the nodes that it adds.

Semantics: AggregationMethod and _GradientsHelper of tensorflow/python/ops/gradients_util.py.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from graphmill.errors import InvalidValueError


class AggregationMethod:
    """The method by which several gradients of one tensor are added.

    Attributes:
        ADD_N: one node adds all of them when the last one is available.
        DEFAULT: `ADD_N`.
        EXPERIMENTAL_TREE: each is added to the sum of those before it, so that it can be freed.
        EXPERIMENTAL_ACCUMULATE_N: as `EXPERIMENTAL_TREE`, as in TensorFlow.
    """

    ADD_N: Final = 0
    DEFAULT: Final = ADD_N
    EXPERIMENTAL_TREE: Final = 1
    EXPERIMENTAL_ACCUMULATE_N: Final = 2


class GradientOptions(NamedTuple):
    """The options of one call of `gradients`.

    Attributes:
        colocate: whether gradients are placed with their forward ops.
        gate: whether the gradients of the inputs of an op become available only together.
        sequential: whether several gradients of one tensor are added one after the other.
    """

    colocate: bool = False
    gate: bool = False
    sequential: bool = False


def gradient_options(colocate: bool, gate: bool, aggregation_method: int | None) -> GradientOptions:
    """Return the options that a caller of `gradients` gives.

    Raises:
        InvalidArgumentError: there is no such aggregation method.
    """
    method = AggregationMethod.DEFAULT if aggregation_method is None else aggregation_method
    if method not in (
        AggregationMethod.ADD_N,
        AggregationMethod.EXPERIMENTAL_TREE,
        AggregationMethod.EXPERIMENTAL_ACCUMULATE_N,
    ):
        raise InvalidValueError(
            f"Invalid aggregation_method: {method!r}; it is a value of AggregationMethod: ADD_N, "
            "EXPERIMENTAL_TREE or EXPERIMENTAL_ACCUMULATE_N"
        )
    return GradientOptions(colocate, gate, method != AggregationMethod.ADD_N)
