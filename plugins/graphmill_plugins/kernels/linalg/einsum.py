"""Einsum; on NumPy as transposes, reshapes and one matrix product.

Semantics: tensorflow/core/kernels/linalg/einsum_op.h. One or two operands; `...` broadcasts.
A repeated label takes the diagonal of an operand, or fills the diagonal of the output.
"""

from __future__ import annotations

import functools
import math
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._matmul import stacked_product
from graphmill_plugins.kernels._support import check_size, is_narrow, is_numpy, shape_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import ArrayNamespace, Value

    Labels = tuple[str, ...]
    Shapes = tuple[tuple[int, ...], ...]

_ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class _Plan:
    """The labels of operands and output for given ranks, with ellipses expanded.

    Labels of an ellipsis are `...0`, `...1` from the right, so that they broadcast as axes do.
    """

    operands: tuple[Labels, ...]
    output: Labels


def _parse_labels(text: str) -> Labels:
    """Split `ab...c` into labels, with `...` as one."""
    labels: list[str] = []
    before, dots, after = text.partition(_ELLIPSIS)
    labels.extend(before)
    if dots:
        labels.append(_ELLIPSIS)
        labels.extend(after)
    if "." in before + after or "-" in labels or ">" in labels:
        raise InvalidArgumentError(f"einsum subscript {text!r} may hold labels and one ellipsis")
    return tuple(labels)


def _parse(equation: str, count: int) -> tuple[tuple[Labels, ...], Labels]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    if not arrow or "->" in right:
        raise InvalidArgumentError(f"Expecting exactly one '->' in einsum equation: {equation}")
    operands = tuple(map(_parse_labels, left.split(",")))
    output = _parse_labels(right)
    if len(operands) != count or count not in (1, 2):
        raise InvalidArgumentError(
            f"einsum equation {equation!r} names {len(operands)} operands, but the op has {count}; "
            "one or two are supported"
        )
    available = {label for labels in operands for label in labels} | {_ELLIPSIS}
    unknown = [label for label in output if label not in available]
    if unknown:
        raise InvalidArgumentError(
            f"einsum equation {equation!r} has output labels {unknown} that no operand has"
        )
    return operands, output


def _expand_ellipsis(labels: Labels, rank: int) -> Labels:
    """Replace the ellipsis by one label for each dimension that it covers."""
    if _ELLIPSIS not in labels:
        if len(labels) != rank:
            raise InvalidArgumentError(
                f"Expected input to have rank {len(labels)} for subscript {''.join(labels)!r}, "
                f"but it has rank {rank}"
            )
        return labels
    count = rank - len(labels) + 1
    if count < 0:
        raise InvalidArgumentError(
            f"Expected input of rank at least {len(labels) - 1} for subscript "
            f"{''.join(labels)!r}, but it has rank {rank}"
        )
    position = labels.index(_ELLIPSIS)
    return labels[:position] + _ellipsis_labels(count) + labels[position + 1 :]


def _ellipsis_labels(count: int) -> Labels:
    return tuple(f"{_ELLIPSIS}{index}" for index in reversed(range(count)))


def _plan(operands: tuple[Labels, ...], output: Labels, ranks: tuple[int, ...]) -> _Plan:
    expanded = tuple(map(_expand_ellipsis, operands, ranks))
    widest = max(sum(label.startswith(_ELLIPSIS) for label in labels) for labels in expanded)
    if _ELLIPSIS in output:
        position = output.index(_ELLIPSIS)
        output = output[:position] + _ellipsis_labels(widest) + output[position + 1 :]
    elif widest:
        raise InvalidArgumentError(
            "an ellipsis in an operand of an einsum equation must also be in the output"
        )
    return _Plan(expanded, output)


def _check_sizes(plan: _Plan, shapes: Shapes) -> dict[str, int]:
    """Return the size of each label; ellipsis dimensions of size 1 broadcast."""
    sizes: dict[str, int] = {}
    for labels, shape in zip(plan.operands, shapes, strict=True):
        for label, size in zip(labels, shape, strict=True):
            previous = sizes.setdefault(label, size)
            if previous == size:
                continue
            if not (label.startswith(_ELLIPSIS) and 1 in (previous, size)):
                raise InvalidArgumentError(
                    f"Expected dimension {previous} for label {label!r} in an input of shape "
                    f"{shape_text(shape)} but got dimension {size}"
                )
            sizes[label] = size if previous == 1 else previous
    return sizes


@kernel("Einsum", make=True, expensive=True)
def einsum(
    xp: ArrayNamespace, equation: str, N: int, T: np.dtype[Any]
) -> Callable[[list[Value]], Value]:
    """Contract one or two tensors as `equation` says; narrow floats are multiplied in float32."""
    operands, output = _parse(equation, N)
    prepare = functools.partial(_prepare, xp, operands, output, T.itemsize)
    prepared = functools.lru_cache(maxsize=8)(prepare)  # models have few shapes
    if not is_narrow(T):
        return lambda inputs: prepared(tuple(value.shape for value in inputs))(*inputs)

    def narrow(inputs: list[Value]) -> Value:
        wide = [value.astype(np.float32) for value in inputs]
        return prepared(tuple(value.shape for value in inputs))(*wide).astype(T)

    return narrow


def _prepare(
    xp: ArrayNamespace,
    operands: tuple[Labels, ...],
    output: Labels,
    itemsize: int,
    shapes: Shapes,
) -> Callable[..., Value]:
    """Return the function that computes the einsum for operands of these shapes.

    Raises:
        ResourceExhaustedError: the result is larger than the memory budget.
    """
    plan = _plan(operands, output, tuple(map(len, shapes)))
    sizes = _check_sizes(plan, shapes)
    unique = tuple(dict.fromkeys(plan.output))
    check_size([sizes[label] for label in plan.output], itemsize=itemsize)
    if is_numpy(xp):
        contract = _numpy_contraction(plan.operands, unique, shapes)
    else:
        contract = _general_contraction(xp, plan.operands, unique, sizes)
    if len(unique) == len(plan.output):
        return contract
    return lambda *inputs: _put_on_diagonals(xp, contract(*inputs), unique, plan.output)


def _put_on_diagonals(xp: ArrayNamespace, x: Value, labels: Labels, output: Labels) -> Value:
    """Add an axis for each repeated output label, with the elements on the diagonal."""
    for position, label in enumerate(output):
        if label not in output[:position]:
            continue
        size = x.shape[labels.index(label)]
        axis = labels.index(label)
        x = xp.expand_dims(x, position)
        labels = (*labels[:position], label, *labels[position:])
        axis += position <= axis
        shape = [size if index in (axis, position) else 1 for index in range(x.ndim)]
        x = xp.where(xp.eye(size, dtype=bool).reshape(shape), x, x.dtype.type(0))
    return x


def _general_contraction(
    xp: ArrayNamespace, operands: tuple[Labels, ...], output: Labels, sizes: dict[str, int]
) -> Callable[..., Value]:
    """Broadcast the operands, then contract them with the namespace's own einsum."""
    letters = dict(zip(sizes, string.ascii_letters, strict=False))
    equation = ",".join("".join(letters[label] for label in labels) for labels in operands)
    equation += "->" + "".join(letters[label] for label in output)
    full = [[sizes[label] for label in labels] for labels in operands]

    def contract(*inputs: Value) -> Value:
        spread = [xp.broadcast_to(x, shape) for x, shape in zip(inputs, full, strict=True)]
        return xp.einsum(equation, *spread)

    return contract


def _numpy_contraction(
    operands: tuple[Labels, ...], output: Labels, shapes: Shapes
) -> Callable[..., Value]:
    kept_labels = [
        tuple(dict.fromkeys(label for label in labels if label in _needed(operands, output, index)))
        for index, labels in enumerate(operands)
    ]
    simplify = [
        _simplifier(labels, left) for labels, left in zip(operands, kept_labels, strict=True)
    ]
    if len(operands) == 1:
        order = [kept_labels[0].index(label) for label in output]
        return lambda x: simplify[0](x).transpose(order)
    sizes = [
        dict(zip(labels, shape, strict=True))
        for labels, shape in zip(operands, shapes, strict=True)
    ]
    multiply = _multiplication(kept_labels[0], kept_labels[1], output, sizes[0], sizes[1])
    if all(left == labels for labels, left in zip(operands, kept_labels, strict=True)):
        return multiply
    return lambda x, y: multiply(simplify[0](x), simplify[1](y))


def _needed(operands: tuple[Labels, ...], output: Labels, index: int) -> set[str]:
    """Return the labels that the output or the other operand needs."""
    return set(output).union(*operands[:index], *operands[index + 1 :])


def _simplifier(labels: Labels, kept_labels: Labels) -> Callable[[Value], Value]:
    """Return a function that takes diagonals of repeated labels and sums over unneeded labels."""
    unique = tuple(dict.fromkeys(labels))
    subscripts = [unique.index(label) for label in labels]
    summed = tuple(axis for axis, label in enumerate(unique) if label not in kept_labels)

    def simplify(x: Value) -> Value:
        if len(unique) < len(labels):
            x = np.einsum(x, subscripts, list(range(len(unique))))
        return np.add.reduce(x, summed, x.dtype) if summed else x

    return simplify


def _multiplication(
    x_labels: Labels,
    y_labels: Labels,
    output: Labels,
    x_sizes: dict[str, int],
    y_sizes: dict[str, int],
) -> Callable[[Value, Value], Value]:
    """Return a function that multiplies two arrays as stacks of matrices.

    The axes of a stack are first the batch labels (in both operands and the output). Rows and
    columns are the labels of this operand alone and the summed labels.
    """
    shared = set(x_labels) & set(y_labels)
    batch = [label for label in output if label in shared]
    summed = [label for label in x_labels if label in shared and label not in output]
    x_free = [label for label in x_labels if label not in shared]
    y_free = [label for label in y_labels if label not in shared]
    arrange_x = _arrangement(x_labels, x_sizes, batch, x_free, summed)
    arrange_y = _arrangement(y_labels, y_sizes, batch, summed, y_free)
    # Of unequal sizes one is 1 and broadcasts.
    stack = [y_sizes[label] if x_sizes[label] == 1 else x_sizes[label] for label in batch]
    full = [*stack, *(x_sizes[label] for label in x_free), *(y_sizes[label] for label in y_free)]
    labels = [*batch, *x_free, *y_free]
    order = [labels.index(label) for label in output]
    combine: Callable[[Value, Value], Value] = stacked_product if summed else np.multiply
    return lambda x, y: combine(arrange_x(x), arrange_y(y)).reshape(full).transpose(order)


def _arrangement(
    labels: Labels,
    sizes: dict[str, int],
    batch: Sequence[str],
    rows: Sequence[str],
    columns: Sequence[str],
) -> Callable[[Value], Value]:
    """Return a function that rearranges an operand to a stack of matrices for BLAS."""
    order = [labels.index(label) for label in (*batch, *rows, *columns)]
    height, width = (math.prod(sizes[label] for label in part) for part in (rows, columns))
    shape = [*(sizes[label] for label in batch), height, width]

    def arrange(x: Value) -> Value:
        x = x.transpose(order).reshape(shape)
        # BLAS needs contiguous rows or columns.
        return x if x.itemsize in x.strides[-2:] else np.ascontiguousarray(x)

    return arrange
