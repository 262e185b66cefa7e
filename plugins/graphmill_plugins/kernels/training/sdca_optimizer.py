"""SdcaOptimizer: one pass of stochastic dual coordinate ascent over a mini-batch.

Semantics: tensorflow/core/kernels/sdca_ops.cc, sdca_internal.cc. TensorFlow takes the examples in a
random order of the process, and in several threads; here the order is random, too, and one thread
takes them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.training._sdca_losses import LOSSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value
    from graphmill_plugins.kernels.training._sdca_losses import Loss

_STATE_COLUMNS: Final = 4  # dual variable, primal loss, dual loss, weight


@kernel("SdcaOptimizer", "SdcaOptimizerV2", stateful=True, host=True, effects=("rng",))
class SdcaOptimizerKernel:
    """Update the dual variables of the examples of a mini-batch, and the weights."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        attrs = construction.attrs
        self._loss = LOSSES[construction.attr("loss_type")]
        self._is_adaptive = bool(attrs.get("adaptative", attrs.get("adaptive")))
        self._partitions = construction.attr("num_loss_partitions")
        self._l1, self._l2 = construction.attr("l1"), construction.attr("l2")

    def __call__(
        self,
        ctx: OpKernelContext,
        example_indices: list[Value],
        feature_indices: list[Value],
        feature_values: list[Value],
        dense_features: list[Value],
        example_weights: Value,
        example_labels: Value,
        sparse_indices: list[Value],
        sparse_weights: list[Value],
        dense_weights: list[Value],
        example_state_data: Value,
    ) -> tuple[Value, list[Value], list[Value]]:
        """Return the new state of the examples, and the changes of the weights.

        Raises:
            InvalidArgumentError: inputs do not fit each other, or the loss has no such label.
        """
        del ctx
        columns = zip(example_indices, feature_indices, sparse_indices, sparse_weights, strict=True)
        sparse = [
            _SparseFeatures(*column, feature_values[index : index + 1])
            for index, column in enumerate(columns)
        ]
        dense = [_DenseFeatures(*pair) for pair in zip(dense_features, dense_weights, strict=True)]
        batch = _Batch([*sparse, *dense], example_weights, example_labels, example_state_data)
        with np.errstate(all="ignore"):
            step = _Ascent(batch, self._loss, self._l1, self._l2, self._partitions)
            examples = step.sampled() if self._is_adaptive else _shuffled(batch.size)
            for example in cancellable(examples):
                step.update(example)
        return (
            batch.state,
            [features.changes() for features in sparse],
            [features.changes() for features in dense],
        )


@dataclass(frozen=True)
class _Part:
    """The features of one example: positions of their weights, and values."""

    positions: Any
    values: np.ndarray[Any, Any]


class _Features:
    """A group of features, with the weights and their changes."""

    def __init__(self, weights: Value) -> None:
        self.weights = weights
        self.nominals = np.asarray(weights).ravel()
        self.deltas = np.zeros_like(self.nominals)

    def parts(self, count: int) -> list[_Part]:
        """Return the features of each example."""
        raise NotImplementedError

    def products(self, part: _Part, partitions: int, shrinkage: float) -> tuple[float, float]:
        """Return the products of an example with the new and the old weights."""
        old = self.nominals[part.positions]
        new = old + self.deltas[part.positions] * np.float32(partitions)
        dtype = part.values.dtype
        pair = (_shrunk(weights.astype(dtype), shrinkage) for weights in (new, old))
        now, before = (float((part.values * weights).sum()) for weights in pair)
        return now, before

    def add(self, part: _Part, factor: float) -> None:
        """Add a multiple of the features of an example to the changes of the weights."""
        added = part.values * part.values.dtype.type(factor)
        self.deltas[part.positions] = self.deltas[part.positions] + added

    def changes(self) -> Value:
        """Return the changes in the shape of the weights."""
        return self.deltas.reshape(np.shape(self.weights))


class _DenseFeatures(_Features):
    def __init__(self, features: Value, weights: Value) -> None:
        super().__init__(weights)
        if np.ndim(features) != 2:
            raise InvalidArgumentError(
                f"Dense features must be rank 2 but are of rank {np.ndim(features)}"
            )
        columns = features.shape[1]
        if not 0 < columns <= self.nominals.size:
            raise InvalidArgumentError(
                f"More dense features than we have parameters for: {columns}"
            )
        if columns < self.nominals.size:
            raise InvalidArgumentError(
                f"there are {self.nominals.size} weights for {columns} dense features"
            )
        self._features = np.asarray(features)

    def parts(self, count: int) -> list[_Part]:
        if self._features.shape[0] < count:
            raise InvalidArgumentError(
                f"dense features have {self._features.shape[0]} rows for {count} examples"
            )
        return [_Part(slice(None), row) for row in self._features[:count]]


class _SparseFeatures(_Features):
    def __init__(
        self,
        examples: Value,
        features: Value,
        indices: Value,
        weights: Value,
        values: Sequence[Value],
    ) -> None:
        super().__init__(weights)
        self._examples, self._features = np.ravel(examples), np.ravel(features)
        if self._examples.size != self._features.size:
            raise InvalidArgumentError(
                "Found mismatched example_indices and feature_indices: "
                f"{self._examples.size} vs {self._features.size}"
            )
        if np.size(indices) != self.nominals.size:
            raise InvalidArgumentError(
                f"there are {np.size(indices)} sparse_indices for {self.nominals.size} weights"
            )
        self._positions = {
            index: position for position, index in enumerate(np.ravel(indices).tolist())
        }
        self._values = np.ravel(values[0]).astype(np.float64) if values else None
        if self._values is not None and self._values.size < self._features.size:
            raise InvalidArgumentError(
                f"there are {self._values.size} sparse feature values for {self._features.size} "
                "feature indices"
            )

    def parts(self, count: int) -> list[_Part]:
        """Return the features of each example; features that are out of order are left out."""
        result, end, examples = [], 0, self._examples.tolist()
        for example in cancellable(range(count)):
            start = end
            while end < len(examples) and examples[end] == example:
                end += 1
            result.append(self._part(start, end))
        return result

    def _part(self, start: int, end: int) -> _Part:
        features = self._features[start:end].tolist()
        positions = [self._position(feature) for feature in features]
        if len(set(features)) < len(features):
            raise InvalidArgumentError("Duplicate index in sparse vector.")
        values = np.ones(end - start) if self._values is None else self._values[start:end]
        return _Part(np.array(positions, np.intp), values)

    def _position(self, feature: int) -> int:
        if feature not in self._positions:
            raise InvalidArgumentError(
                f"Found sparse feature indices out of valid range: {feature}"
            )
        return self._positions[feature]


def _shrunk(weights: Any, shrinkage: float) -> Any:
    """Move weights towards zero, but not beyond it."""
    return np.sign(weights) * np.maximum(np.abs(weights) - weights.dtype.type(shrinkage), 0)


class _Batch:
    """The examples of a mini-batch.

    Raises:
        InvalidArgumentError: the inputs do not fit each other.
    """

    def __init__(
        self, groups: Sequence[_Features], weights: Value, labels: Value, state: Value
    ) -> None:
        if not groups:
            raise InvalidArgumentError("Requires at least one feature to train.")
        self.groups = groups
        self.weights, self.labels = np.ravel(weights).tolist(), np.ravel(labels).tolist()
        self.size = len(self.weights)
        if len(self.labels) != self.size:
            raise InvalidArgumentError(
                f"Expected {self.size} example labels but got {len(self.labels)}"
            )
        self.parts = list(zip(*(group.parts(self.size) for group in groups), strict=True))
        if np.shape(state) != (self.size, _STATE_COLUMNS):
            raise InvalidArgumentError(
                f"Expected shape [{self.size},{_STATE_COLUMNS}] for example_state_data, got "
                f"{shape_text(np.shape(state))}"
            )
        self.state = np.array(state)


class _Ascent:
    """One pass over a mini-batch."""

    def __init__(
        self, batch: _Batch, loss: Loss, l1: float, l2: float, num_loss_partitions: int
    ) -> None:
        self._batch, self._loss, self._partitions = batch, loss, num_loss_partitions
        self._l2 = np.float64(np.float32(l2))
        self._shrinkage = float(np.float32(l1) / np.float32(l2))

    def update(self, example: int) -> None:
        """Maximize the dual objective in the variable of an example."""
        batch, loss = self._batch, self._loss
        weight = batch.weights[example]
        label = loss.target(batch.labels[example])
        dual = float(batch.state[example, 0])
        wx, old_wx = self._predictions(example)
        norm = self._squared_norm(example) / self._l2 * weight * self._partitions
        new_dual = loss.updated_dual(label, dual, wx, norm)
        factor = (new_dual - dual) * weight / self._l2
        for group, part in zip(batch.groups, batch.parts[example], strict=True):
            group.add(part, factor)
        batch.state[example] = (
            new_dual,
            loss.primal(old_wx, label) * weight,
            loss.dual(dual, label) * weight,
            weight,
        )

    def sampled(self) -> Sequence[int]:
        """Return sampled examples, in proportion to the expected changes of their dual variables.

        An example that was taken k times is taken again with the probability 0.1 ** k. Those that
        were never taken follow, if there is room.
        """
        examples = cancellable(range(self._batch.size))
        weights = np.array([self._importance(example) for example in examples])
        total = weights.sum()
        if not self._batch.size or not np.isfinite(total) or not total:
            return _shuffled(self._batch.size)
        rng = np.random.default_rng()
        counts = np.zeros(self._batch.size, np.int64)
        indices: list[int] = []
        for example in rng.choice(self._batch.size, size=2 * self._batch.size, p=weights / total):
            if len(indices) < self._batch.size and rng.random() <= 0.1 ** int(counts[example]):
                counts[example] += 1
                indices.append(int(example))
        unseen = sorted(np.flatnonzero(counts == 0).tolist(), key=lambda example: -weights[example])
        return [*indices, *unseen][: self._batch.size]

    def _importance(self, example: int) -> float:
        loss, batch = self._loss, self._batch
        label = loss.target(batch.labels[example])
        residual = float(batch.state[example, 0])
        residual += loss.derivative(self._predictions(example)[0], label)
        spread = self._squared_norm(example) + self._l2 * loss.smoothness
        return float(batch.weights[example] * np.sqrt(spread) * abs(residual))

    def _predictions(self, example: int) -> tuple[float, float]:
        """Return the predictions with the new and the old weights."""
        parts = zip(self._batch.groups, self._batch.parts[example], strict=True)
        pairs = [group.products(part, self._partitions, self._shrinkage) for group, part in parts]
        return sum(new for new, _ in pairs), sum(old for _, old in pairs)

    def _squared_norm(self, example: int) -> float:
        return sum(float((p.values * p.values).sum()) for p in self._batch.parts[example])


def _shuffled(count: int) -> Sequence[int]:
    order: Sequence[int] = np.random.default_rng().permutation(count).tolist()
    return order
