"""Resampling of classes: `Dataset.rejection_resample`.

Elements come from two datasets, the original one and one that rejects elements at random. Which one
is drawn, and which elements are rejected, follows from the distributions of the classes.
Semantics: tensorflow/python/data/ops/dataset_ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.data.components import Component
from graphmill.data.dataset import Dataset
from graphmill.data.element_spec import element_of
from graphmill.errors import InvalidValueError
from graphmill.functions import (
    cast,
    convert_to_tensor,
    expand_dims,
    gather,
    one_hot,
    random_uniform,
    reduce_max,
    reduce_min,
    reduce_sum,
    stack,
    tile,
)
from graphmill.ops import logging

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from graphmill.graph.tensor import Tensor

    Distribution = NDArray[np.float32]

_BATCH: Final = 32
"""Elements after which the estimate of a distribution is updated."""
_SMOOTHING: Final = 10
"""The count with which each class starts before the first element."""
_TINY: Final = np.finfo(np.float32).tiny


def resampled(
    source: Dataset,
    class_func: Callable[..., Any],
    target_dist: Any,
    initial_dist: Any,
    seed: int | None,
) -> Dataset:
    """Reject and repeat elements; see `Dataset.rejection_resample`."""
    target = _distribution(target_dist, "target_dist")
    original = source.map(lambda *element: (class_func(*element), element_of(element)))
    if initial_dist is None:
        share = None  # it changes with the estimate
        initial = _estimated(source.map(class_func), len(target))
    else:
        known = _distribution(initial_dist, "initial_dist")
        if known.shape != target.shape:
            raise InvalidValueError(
                f"rejection_resample: initial_dist has {len(known)} classes, target_dist has "
                f"{len(target)}"
            )
        with np.errstate(all="ignore"):
            share = np.min(target / known)  # NaN, neither 0 nor 1, for a class that never occurs
        if share == 1:
            return original
        initial = Dataset.from_tensors(known).repeat()
    rates = initial.map(lambda estimate: _acceptance(estimate, target))
    shares = rates.map(lambda _, share: share)
    if share == 0:
        return _rejecting(source, class_func, rates, initial, seed)
    return Dataset.sample_from_datasets(
        [original, _rejecting(source, class_func, rates, initial, seed)],
        shares.map(lambda share: stack([share, 1.0 - share])),
        seed,
        stop_on_empty_dataset=True,
    )


def _distribution(value: Any, name: str) -> Distribution:
    """Return the probabilities of classes.

    Raises:
        InvalidArgumentError: they depend on a graph, or are not one or more numbers of at least 0.
    """
    numbers: Any = Component(value).value
    if numbers is None:
        raise InvalidValueError(
            f"rejection_resample: {name} must be numbers, not a tensor of a graph"
        )
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iuf":
        raise InvalidValueError(
            f"rejection_resample: {name} must be a vector of one probability for each class, got "
            f"{value!r}"
        )
    if not (numbers >= 0).all() or not np.isfinite(numbers).all():
        raise InvalidValueError(
            f"rejection_resample: {name} must have no negative number and no NaN, got {value!r}"
        )
    probabilities: Distribution = numbers.astype(np.float32)
    return probabilities


def _acceptance(initial: Tensor, target: Distribution) -> tuple[Tensor, Tensor]:
    """Return the rate at which each class is accepted, and the share of the original dataset."""
    ratio = convert_to_tensor(target) / (initial + _TINY)
    least = reduce_min(ratio)
    return (ratio - least) / (reduce_max(ratio) - least), least


def _estimated(classes: Dataset, count: int) -> Dataset:
    """Return the distribution of the classes so far, once for each element."""

    def update(seen: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        seen = seen + reduce_sum(one_hot(batch, count, dtype="int64"), 0)
        estimate = cast(cast(seen, "float64") / cast(reduce_sum(seen), "float64"), "float32")
        return seen, tile(expand_dims(estimate, 0), [_BATCH, 1])

    start = np.full([count], _SMOOTHING, np.int64)
    return classes.batch(_BATCH).scan(start, update).unbatch()


def _rejecting(
    source: Dataset,
    class_func: Callable[..., Any],
    rates: Dataset,
    initial: Dataset,
    seed: int | None,
) -> Dataset:
    """Return pairs of class and element, and reject elements of common classes."""

    def classified(rate: Tensor, data: Any) -> tuple[Any, Tensor, Any]:
        number = class_func(*data) if isinstance(data, tuple) else class_func(data)
        return number, gather(rate, number), data

    warned = Dataset.zip((rates.map(lambda rate, _: rate), initial)).map(_with_warning)
    kept = (
        Dataset.zip((warned, source))
        .map(classified)
        .filter(lambda _, rate, __: random_uniform([], seed=seed) < rate)
    )
    return kept.map(lambda number, _, data: (number, data)).prefetch(3)


def _with_warning(rates: Tensor, initial: Tensor) -> Tensor:
    """Return the rates, and print them if more than half of the elements are rejected."""
    from graphmill.graph.control_flow.cond import cond

    rejected = reduce_sum((1 - rates) * initial)
    result: Tensor = cond(
        rejected < 0.5,
        lambda: rates,
        lambda: logging.print(
            rates,
            [rejected, initial, rates],
            message="Proportion of examples rejected by sampler is high: ",
            summarize=100,
            first_n=10,
        ),
    )
    return result
