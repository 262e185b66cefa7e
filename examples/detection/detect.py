"""Find bright squares in a picture: anchors, scores, boxes and non-maximum suppression in a graph.

    python examples/detection/detect.py

A detector as TensorFlow's object detection models have it, small enough to read: each position and
size is an anchor, a convolution scores it, and suppression keeps the best of overlapping boxes.
The picture is generated.
"""

from __future__ import annotations

import numpy as np

import graphmill
from graphmill import functions as F
from graphmill import ops

SIDE = 48
SIZES = (6, 10)
SQUARES = ((4, 5, 6), (20, 30, 10), (34, 8, 6))
"""Top, left and side of the squares in the generated picture."""


def picture(seed: int = 0) -> np.ndarray:
    """Return a grey picture with noise and squares, float32 `[1, SIDE, SIDE, 1]`."""
    pixels = np.random.default_rng(seed).uniform(0, 0.2, (SIDE, SIDE)).astype(np.float32)
    for top, left, side in SQUARES:
        pixels[top : top + side, left : left + side] += 0.7
    return pixels[None, :, :, None]


def template(side: int) -> np.ndarray:
    """Return a filter that is largest on a square of this side: bright inside, dark around."""
    weights = np.full((side + 2, side + 2), -1 / (4 * side + 4), np.float32)
    weights[1:-1, 1:-1] = 1 / side**2
    return weights[:, :, None, None]


def detector(image: graphmill.Tensor) -> tuple[graphmill.Tensor, graphmill.Tensor]:
    """Return boxes `[n, 4]` (top, left, bottom, right) and their scores `[n]`, the best first."""
    boxes, scores = [], []
    for side in SIZES:
        score = F.conv2d(image, template(side), strides=1, padding="VALID")
        count = SIDE - side - 1
        rows, columns = np.mgrid[1 : count + 1, 1 : count + 1].reshape(2, -1)
        anchors = np.stack([rows, columns, rows + side, columns + side], 1).astype(np.float32)
        boxes.append(F.constant(anchors))
        scores.append(F.reshape(score, [-1]))
    all_boxes, all_scores = F.concat(boxes, 0), F.concat(scores, 0)
    chosen = ops.image.non_max_suppression_v3(
        all_boxes, all_scores, max_output_size=10, iou_threshold=0.1, score_threshold=0.5
    )
    return F.gather(all_boxes, chosen), F.gather(all_scores, chosen)


def main() -> list[tuple[int, int, int]]:
    """Detect the squares; return top, left and side of each."""
    graph = graphmill.Graph()
    with graph.as_default():
        image = F.placeholder("float32", [1, SIDE, SIDE, 1], name="image")
        boxes, scores = detector(image)
    with graphmill.Session(graph=graph) as session:
        corners, certainty = session.run([boxes, scores], {image: picture()})
    squares = [(int(t), int(le), int(b - t)) for t, le, b, _ in corners]
    for square, score in zip(squares, certainty, strict=True):
        print(f"top {square[0]}, left {square[1]}, side {square[2]}: score {score:.2f}")
    return squares


if __name__ == "__main__":
    main()
