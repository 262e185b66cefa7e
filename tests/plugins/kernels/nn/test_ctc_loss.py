"""CTC loss refuses labels that are not classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors

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
