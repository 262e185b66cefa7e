"""Crop boxes that are not finite are refused, as in TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import InvalidArgumentError

pytestmark = pytest.mark.divided

IMAGE = np.arange(30, dtype=np.float32).reshape(1, 5, 6, 1)
GRADS = np.ones((1, 3, 4, 1), np.float32)
BOX_IND = np.zeros(1, np.int32)


def crop(boxes: Any) -> Any:
    return ops.image.crop_and_resize(IMAGE, boxes, BOX_IND, np.int32([3, 4]))


def image_gradient(boxes: Any) -> Any:
    size = np.int32(IMAGE.shape)
    return ops.image.crop_and_resize_grad_image(GRADS, boxes, BOX_IND, size, T="float32")


def box_gradient(boxes: Any) -> Any:
    return ops.image.crop_and_resize_grad_boxes(GRADS, IMAGE, boxes, BOX_IND)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("corner", range(4))
@pytest.mark.parametrize("build", [crop, image_gradient, box_gradient])
@pytest.mark.parametrize("mode", ["off", "eager"])
def test_boxes_that_are_not_finite_are_refused(
    mode: str, build: Any, corner: int, value: float
) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        boxes = graph.placeholder("float32", [None, 4], name="boxes")
        result = build(boxes)
    finite = np.float32([[0, 0, 1, 1]])
    config = {"graphmill": {"jit": mode}}
    with graphmill.Session(graph=graph, config=config) as session:
        assert np.isfinite(session.run(result, {boxes: finite})).all()
        finite[0, corner] = value
        with pytest.raises(InvalidArgumentError, match="at least one element that is not finite"):
            session.run(result, {boxes: finite})


def test_far_boxes_are_extrapolated() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        far = np.float32([[-1e30, 0, 1e30, 1]])
        result = ops.image.crop_and_resize(
            IMAGE, far, BOX_IND, np.int32([3, 4]), extrapolation_value=-7.0
        )
    with graphmill.Session(graph=graph) as session:
        rows = session.run(result)[0, :, :, 0]
    outside = [-7.0] * 4
    expected = np.float32([outside, [0.0, 5 / 3, 10 / 3, 5.0], outside])
    np.testing.assert_allclose(rows, expected, rtol=1e-6)
