"""Kernels whose time grows with their values end when their step is cancelled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from graphmill import dtypes
from graphmill.errors import CancelledError
from graphmill.runtime.steps.step_runner import running
from graphmill_plugins.kernels.data_flow._accumulator import SparseAccumulator
from graphmill_plugins.kernels.data_flow._queue_kinds import PriorityQueue
from graphmill_plugins.kernels.training._sdca_losses import LOSSES
from graphmill_plugins.kernels.training.sdca_optimizer import SdcaOptimizerKernel
from graphmill_plugins.kernels.xla._computation import combine_at
from graphmill_plugins.kernels.xla.sort import _order

if TYPE_CHECKING:
    from collections.abc import Callable

TEXTS: Final = np.array([b"text"] * 3, object)
ROWS: Final = np.array([[0], [1], [2]])
IMAGE: Final = np.ones((1, 4, 4, 1), np.float32)
VOLUME: Final = np.ones((1, 4, 4, 4, 1), np.float32)
SIZES: Final = np.array([2, 2, 1, 1], np.int32)
VALID: Final = {"strides": [1, 1, 1, 1], "padding": "VALID"}
VOLUMES: Final = {"strides": [1, 1, 1, 1, 1], "padding": "VALID"}
LONG_TEXT: Final = np.array([b"x" * 1000], object)

CALLS: Final[dict[str, tuple[list[Any], dict[str, Any]]]] = {
    "SdcaFprint": ([TEXTS], {}),
    "ScalarSummary": ([TEXTS, np.ones(3, np.float32)], {}),
    "SparseAddGrad": ([np.ones(3, np.float32), ROWS, ROWS, ROWS], {}),
    "Substr": ([TEXTS, np.zeros(3, np.int32), np.ones(3, np.int32)], {"unit": "UTF8_CHAR"}),
    "StringToHashBucketStrong": ([LONG_TEXT], {"num_buckets": 10, "key": [1, 2]}),
    "Conv2DBackpropInput": (
        [
            np.array([1, 4, 4, 1], np.int32),
            np.ones((2, 2, 1, 1), np.float32),
            np.ones((1, 2, 2, 1), np.float32),
        ],
        VALID | {"strides": [1, 2, 2, 1]},
    ),
    "Conv3D": ([VOLUME, np.ones((2, 2, 2, 1, 1), np.float32)], VOLUMES),
    "Conv3DBackpropFilterV2": (
        [VOLUME, np.array([2, 2, 2, 1, 1], np.int32), VOLUME[:, :3, :3, :3]],
        VOLUMES,
    ),
    "DepthwiseConv2dNativeBackpropFilter": ([IMAGE, SIZES, IMAGE[:, :3, :3]], VALID),
    "MaxPoolGrad": ([IMAGE, IMAGE[:, :3, :3], IMAGE[:, :3, :3]], VALID | {"ksize": [1, 2, 2, 1]}),
    "SampleDistortedBoundingBoxV2": (
        [SIZES[:3], np.zeros((1, 1, 4), np.float32), np.array(2, np.float32)],
        {"max_attempts": 10},
    ),
    "Multinomial": (
        [np.zeros((2, 200), np.float32), np.array(200, np.int32)],
        {"output_dtype": dtypes.int64},
    ),
}


@pytest.fixture
def in_cancelled_step() -> Any:
    """Run a test within a step that is cancelled."""
    with running(SimpleNamespace(is_cancelled=True)):
        yield


@pytest.mark.usefixtures("in_cancelled_step")
@pytest.mark.parametrize("op", CALLS)
def test_kernel_ends_with_its_step(call: Callable[..., Any], op: str) -> None:
    inputs, attrs = CALLS[op]
    with pytest.raises(CancelledError):
        call(op, *inputs, **attrs)


@pytest.mark.parametrize("op", CALLS)
def test_kernel_returns_in_a_step_that_goes_on(call: Callable[..., Any], op: str) -> None:
    inputs, attrs = CALLS[op]
    assert call(op, *inputs, **attrs) is not None


@pytest.mark.usefixtures("in_cancelled_step")
def test_elements_that_were_enqueued_before_the_cancellation_stay() -> None:
    queue = PriorityQueue("q", (dtypes.int64,))
    with pytest.raises(CancelledError):
        queue.put_now((1,), (2,))
    assert queue.put_now((3,))
    assert queue.size == 1


@pytest.mark.usefixtures("in_cancelled_step")
def test_rows_of_an_accumulator_are_unchanged_by_a_merge_that_is_cancelled() -> None:
    accumulator = SparseAccumulator("a", dtypes.float32, None, "SUM")
    unsorted = np.array([1, 1]), np.ones((2, 1), np.float32), np.array([2, 1]), True
    accumulator.apply(0, *unsorted)
    with pytest.raises(CancelledError):
        accumulator.apply(0, *unsorted)
    assert accumulator.count == 1


@pytest.mark.usefixtures("in_cancelled_step")
def test_xla_kernels_end_with_their_step() -> None:
    with pytest.raises(CancelledError):
        _order(1, 2, lambda first, second: first < second)
    with pytest.raises(CancelledError):
        combine_at(np.zeros(2), np.array([0, 0]), np.ones(2), lambda *pair: [sum(pair)])


@pytest.mark.parametrize("is_adaptive", [True, False])
@pytest.mark.usefixtures("in_cancelled_step")
def test_sdca_ends_with_its_step(is_adaptive: bool) -> None:
    attrs = {
        "adaptive": is_adaptive, "loss_type": next(iter(LOSSES)), "num_loss_partitions": 1,
        "l1": 0.0, "l2": 1.0,
    }  # fmt: skip
    kernel = SdcaOptimizerKernel(SimpleNamespace(attrs=attrs, attr=attrs.__getitem__))
    ones = np.ones(1, np.float32)
    dense = [np.ones((1, 1), np.float32)], ones, ones, [], [], [ones]
    with pytest.raises(CancelledError):
        kernel(None, [], [], [], *dense, np.zeros((1, 4), np.float32))


def test_repeated_indices_are_combined_in_order() -> None:
    flat = np.zeros(3)
    combine_at(
        flat,
        np.array([2, 0, 2, 2]),
        np.array([1.0, 5.0, 2.0, 3.0]),
        lambda old, new: [old * 10 + new],
    )
    assert flat.tolist() == [5, 0, 123]
