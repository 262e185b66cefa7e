"""Losses and rankings beyond the op cases: ties, borders, large values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.divided


def test_zero_label_does_not_contribute_to_the_loss(call: Callable[..., Any]) -> None:
    logits = np.array([[1000.0, -1000.0]], np.float32)
    loss, _ = call("SoftmaxCrossEntropyWithLogits", logits, np.array([[1.0, 0.0]], np.float32))
    assert loss.tolist() == [0.0]


def test_the_gradient_is_softmax_minus_labels(call: Callable[..., Any]) -> None:
    logits = np.array([[1.0, 2.0, 3.0]], np.float32)
    soft = call("Softmax", logits)
    _, gradient = call("SparseSoftmaxCrossEntropyWithLogits", logits, np.array([2]))
    np.testing.assert_allclose(gradient, soft - np.array([[0, 0, 1]]), atol=1e-7)


def test_a_label_out_of_range_names_it(call: Callable[..., Any]) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"value of 7 .* range of \[0, 3\)"):
        call("SparseSoftmaxCrossEntropyWithLogits", np.zeros((1, 3), np.float32), np.array([7]))


@pytest.mark.jax
def test_jax_gives_nan_for_a_label_out_of_range(call_jax: Callable[..., Any]) -> None:
    """On JAX, a label out of range gives NaN, as on TensorFlow's GPUs."""
    pytest.importorskip("jax")
    import jax.numpy as jnp

    from graphmill_plugins.kernels.nn.loss import sparse_softmax_cross_entropy

    loss, _ = sparse_softmax_cross_entropy(jnp, jnp.zeros((2, 3)), jnp.array([1, 7]))
    assert np.isnan(loss).tolist() == [False, True]


def test_the_first_of_equals_ranks_first(call: Callable[..., Any]) -> None:
    values, places = call("TopKV2", np.array([1.0, 3.0, 3.0, 2.0, 3.0]), np.int32(4))
    assert values.tolist() == [3, 3, 3, 2]
    assert places.tolist() == [1, 2, 4, 3]
    assert places.dtype == np.int32


@pytest.mark.parametrize("values", [[5, 1, 5, 5, 0, 7, 5, 5, 2, 1], [0.0] * 9, [1.0, np.nan] * 5])
def test_partial_selection_matches_full_sort(call: Callable[..., Any], values: list[float]) -> None:
    rows = np.array([values, values[::-1], values])
    whole = call("TopKV2", rows, np.int32(len(values)))
    few = call("TopKV2", rows, np.int32(2))
    for part, all_of_it in zip(few, whole, strict=True):
        np.testing.assert_array_equal(part, all_of_it[:, :2])


def test_ties_at_the_border_are_in_the_top(call: Callable[..., Any]) -> None:
    predictions = np.array([[0.1, 0.5, 0.5, 0.9], [np.nan, 1, 2, 3]], np.float32)
    got = call("InTopKV2", predictions, np.array([2, 3], np.int32), np.int32(2))
    assert got.tolist() == [True, False]
