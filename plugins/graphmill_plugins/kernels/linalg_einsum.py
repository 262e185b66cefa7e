"""Einsum, as transposes, reshapes and one matrix product where NumPy computes it.

Semantics: tensorflow/core/kernels/linalg/einsum_op.h. One or two operands; `...` broadcasts;
a label that stands twice in an operand takes the diagonal, twice in the output it makes one.
"""

from __future__ import annotations

import functools
import math
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.runtime.kernel import kernel
from graphmill_plugins.kernels._support import is_narrow, is_numpy, shape_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.typing import ArrayNamespace, Value

    Labels = tuple[str, ...]

_ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class _Plan:
    """The labels of the operands and the output for given ranks; an ellipsis is spelt out.

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
            f"einsum equation {equation!r} names {len(operands)} operands, the op has {count}; "
            "one or two are possible"
        )
    known = {label for labels in operands for label in labels} | {_ELLIPSIS}
    unknown = [label for label in output if label not in known]
    if unknown:
        raise InvalidArgumentError(
            f"einsum equation {equation!r} has output labels {unknown} that no operand has"
        )
    return operands, output


def _spell_out(labels: Labels, rank: int) -> Labels:
    """Replace the ellipsis by one label for each dimension that it stands for."""
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
    at = labels.index(_ELLIPSIS)
    return labels[:at] + _ellipsis_labels(count) + labels[at + 1 :]


def _ellipsis_labels(count: int) -> Labels:
    return tuple(f"{_ELLIPSIS}{index}" for index in reversed(range(count)))


def _plan(operands: tuple[Labels, ...], output: Labels, ranks: tuple[int, ...]) -> _Plan:
    spelt = tuple(map(_spell_out, operands, ranks))
    widest = max(sum(label.startswith(_ELLIPSIS) for label in labels) for labels in spelt)
    if _ELLIPSIS in output:
        at = output.index(_ELLIPSIS)
        output = output[:at] + _ellipsis_labels(widest) + output[at + 1 :]
    elif widest:
        raise InvalidArgumentError("an einsum ellipsis of the operands must stand in the output")
    return _Plan(spelt, output)


def _check_sizes(plan: _Plan, inputs: Sequence[Value]) -> dict[str, int]:
    """Return the size of each label; ellipsis dimensions of size 1 broadcast."""
    sizes: dict[str, int] = {}
    for labels, value in zip(plan.operands, inputs, strict=True):
        for label, size in zip(labels, value.shape, strict=True):
            known = sizes.setdefault(label, size)
            if known == size:
                continue
            if not (label.startswith(_ELLIPSIS) and 1 in (known, size)):
                raise InvalidArgumentError(
                    f"Expected dimension {known} for label {label!r} in an input of shape "
                    f"{shape_text(value.shape)} but got dimension {size}"
                )
            sizes[label] = size if known == 1 else known
    return sizes


@kernel("Einsum", make=True, expensive=True)
def einsum(
    xp: ArrayNamespace, equation: str, N: int, T: np.dtype[Any]
) -> Callable[[list[Value]], Value]:
    """Contract one or two tensors as `equation` says; narrow floats are multiplied in float32."""
    operands, output = _parse(equation, N)
    plan_for = functools.lru_cache(maxsize=8)(functools.partial(_plan, operands, output))
    contract = _contract_numpy if is_numpy(xp) else functools.partial(_contract_generally, xp)
    narrow = is_narrow(T)

    def compute(inputs: list[Value]) -> Value:
        plan = plan_for(tuple(value.ndim for value in inputs))
        sizes = _check_sizes(plan, inputs)
        if narrow:
            inputs = [value.astype(np.float32) for value in inputs]
        unique = tuple(dict.fromkeys(plan.output))
        result = contract(plan.operands, unique, inputs, sizes)
        if len(unique) < len(plan.output):
            result = _put_on_diagonals(xp, result, unique, plan.output)
        return result.astype(T) if narrow else result

    return compute


def _put_on_diagonals(xp: ArrayNamespace, x: Value, labels: Labels, output: Labels) -> Value:
    """Spread a label that the output repeats over the diagonal of its axes."""
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


def _contract_generally(
    xp: ArrayNamespace,
    operands: tuple[Labels, ...],
    output: Labels,
    inputs: list[Value],
    sizes: dict[str, int],
) -> Value:
    """Let the namespace's own einsum do it; broadcasting is done before."""
    letters = dict(zip(sizes, string.ascii_letters, strict=False))
    equation = ",".join("".join(letters[label] for label in labels) for labels in operands)
    equation += "->" + "".join(letters[label] for label in output)
    full = [
        xp.broadcast_to(value, [sizes[label] for label in labels])
        for value, labels in zip(inputs, operands, strict=True)
    ]
    return xp.einsum(equation, *full)


def _contract_numpy(
    operands: tuple[Labels, ...], output: Labels, inputs: list[Value], _sizes: dict[str, int]
) -> Value:
    reduced = [
        _reduce_alone(value, labels, _kept(operands, output, index))
        for index, (value, labels) in enumerate(zip(inputs, operands, strict=True))
    ]
    if len(reduced) == 1:
        value, labels = reduced[0]
        return value.transpose([labels.index(label) for label in output])
    (x, x_labels), (y, y_labels) = reduced
    return _multiply(x, x_labels, y, y_labels, output)


def _kept(operands: tuple[Labels, ...], output: Labels, index: int) -> set[str]:
    """Return the labels that the output or the other operand needs."""
    return set(output).union(*operands[:index], *operands[index + 1 :])


def _reduce_alone(x: Value, labels: Labels, kept: set[str]) -> tuple[Value, Labels]:
    """Take diagonals of repeated labels and add over labels that nobody else needs."""
    unique = tuple(dict.fromkeys(labels))
    if len(unique) < len(labels):
        numbers = {label: index for index, label in enumerate(unique)}
        x = np.einsum(x, [numbers[label] for label in labels], list(range(len(unique))))
    alone = tuple(axis for axis, label in enumerate(unique) if label not in kept)
    if alone:
        x = np.add.reduce(x, alone, x.dtype)
    return x, tuple(label for label in unique if label in kept)


def _multiply(x: Value, x_labels: Labels, y: Value, y_labels: Labels, output: Labels) -> Value:
    """Multiply two arrays as stacks of matrices: batch, then free, then contracted labels."""
    shared = set(x_labels) & set(y_labels)
    batch = [label for label in output if label in shared]
    summed = [label for label in x_labels if label in shared and label not in output]
    x_free = [label for label in x_labels if label not in shared]
    y_free = [label for label in y_labels if label not in shared]
    x, x_sizes = _arrange(x, x_labels, batch, x_free, summed)
    y, y_sizes = _arrange(y, y_labels, batch, summed, y_free)
    product = np.matmul(x, y) if summed else x * y
    product = product.reshape(product.shape[: len(batch)] + x_sizes[0] + y_sizes[1])
    order = [*batch, *x_free, *y_free]
    return product.transpose([order.index(label) for label in output])


def _arrange(
    x: Value, labels: Labels, batch: Sequence[str], rows: Sequence[str], columns: Sequence[str]
) -> tuple[Value, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return x as a stack of matrices, and the sizes that make up its rows and columns."""
    x = x.transpose([labels.index(label) for label in (*batch, *rows, *columns)])
    stack, rest = x.shape[: len(batch)], x.shape[len(batch) :]
    sizes = rest[: len(rows)], rest[len(rows) :]
    x = x.reshape((*stack, math.prod(sizes[0]), math.prod(sizes[1])))
    return _unit_stride(x), sizes


def _unit_stride(x: Value) -> Value:
    """Copy matrices that BLAS cannot take: neither rows nor columns are contiguous."""
    if x.itemsize in x.strides[-2:]:
        return x
    return np.ascontiguousarray(x)
