"""CTC loss refuses labels that are not classes; large batches have the losses of small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors
from graphmill_plugins.kernels.nn.ctc import loss

if TYPE_CHECKING:
    from collections.abc import Callable


def arguments(labels: list[int]) -> tuple[Any, ...]:
    inputs = np.zeros((4, 1, 5), np.float32)
    indices = np.array([[0, 0], [0, 1]])
    return inputs, indices, np.array(labels, np.int32), np.array([4], np.int32)


OPTIONS = {
    "preprocess_collapse_repeated": False,
    "ctc_merge_repeated": True,
    "ignore_longer_outputs_than_inputs": True,
}


@pytest.mark.parametrize("labels", [[7, 1], [-1, 1], [2**31 - 1, 1]], ids=str)
def test_label_out_of_range_before_a_class_is_refused(
    call: Callable[..., Any], labels: list[int]
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="labels must be nonnegative"):
        call("CTCLoss", *arguments(labels), **OPTIONS)


@pytest.mark.parametrize("labels", [[1, 5], [1, 7], [0, 1], [-(2**31), 1]], ids=str)
def test_label_out_of_range_is_refused_with_the_blank_first(
    call: Callable[..., Any], labels: list[int]
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"labels must be in \[1, 5\)"):
        call("CTCLossV2", *arguments(labels), **OPTIONS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sum_of_three_logarithms_of_large_arrays(dtype: Any) -> None:
    special = [-np.inf, -1e30, -200.0, -1.5, 0.0, 80.0, np.nan]
    a, b, c = np.array(np.meshgrid(special, special, special), dtype)
    expected, got = np.empty_like(a), np.empty_like(a)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss._log_sum_of_three(a, b, c, expected)
        loss._SumOfThree(a)(a, b, c, got)
    error = 4 * np.finfo(dtype).eps  # of probabilities
    np.testing.assert_allclose(got, expected, rtol=error, atol=error)


@pytest.mark.parametrize("merge", [False, True])
def test_losses_of_a_large_batch_are_those_of_its_sequences(
    call: Callable[..., Any], merge: bool
) -> None:
    rng = np.random.default_rng(0)
    batch, steps, classes = 40, 13, 6
    inputs = (3 * rng.standard_normal((steps, batch, classes))).astype(np.float32)
    inputs[4, 7, 2] = -np.inf
    lengths = rng.integers(0, steps + 1, batch).astype(np.int32)
    counts = rng.integers(1, 7, batch)
    labels = [rng.integers(0, classes - 1, count).astype(np.int32) for count in counts]
    indices = [np.array([[0, place] for place in range(count)]) for count in counts]
    options = OPTIONS | {"ctc_merge_repeated": merge}
    rows = np.concatenate([one + np.array([row, 0]) for row, one in enumerate(indices)])
    together = call("CTCLoss", inputs, rows, np.concatenate(labels), lengths, **options)
    assert 2 * batch * (2 * counts.max() + 1) >= loss._MIN_EXPONENTIALS
    for row in range(batch):
        alone = (inputs[:, row : row + 1], indices[row], labels[row], lengths[row : row + 1])
        each = call("CTCLoss", *alone, **options)
        np.testing.assert_allclose(together[0][row], each[0][0], rtol=1e-5)
        np.testing.assert_allclose(together[1][:, row], each[1][:, 0], rtol=1e-4, atol=1e-6)
