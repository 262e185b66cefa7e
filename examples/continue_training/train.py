"""Continue the training of a TensorFlow 1 program from its checkpoint.

    python examples/continue_training/train.py [FOLDER]

`checkpoint/spirals-20` is what `tf.train.Saver` left after 20 steps: the graph with its optimizer
in `.meta`, and all variables, Adam's moments and the global step among them. make_checkpoint.py is
the program that wrote it. With FOLDER, the result is saved there; TensorFlow restores it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import graphmill

CHECKPOINT = Path(__file__).parent / "checkpoint" / "spirals-20"


def spirals(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points on two spirals, and the spiral of each point: 0 or 1."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, count)
    turn = np.sqrt(rng.uniform(0, 1, count)) * 2.5 * np.pi
    angle = turn + np.pi * label
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], 1) / 6
    return (points + rng.normal(0, 0.03, points.shape)).astype(np.float32), label.astype(np.int32)


def train(folder: str | None = None, steps: int = 600) -> tuple[int, float, float]:
    """Continue training; return the global step, and the accuracy before and after.

    Args:
        folder: the folder for a checkpoint; None to write none.
        steps: the number of steps.
    """
    graph = graphmill.Graph()
    saver = graphmill.train.import_meta_graph(f"{CHECKPOINT}.meta", graph=graph)
    points, labels = spirals(1000, 10_000)
    test = {"x:0": points, "label:0": labels}
    with graphmill.Session(graph=graph) as session:
        saver.restore(session, CHECKPOINT)
        before = float(session.run("accuracy:0", test))
        for number in range(20, 20 + steps):
            points, labels = spirals(128, number)
            session.run("train", {"x:0": points, "label:0": labels, "keep:0": 0.9})
        after, step = float(session.run("accuracy:0", test)), int(session.run("global_step:0"))
        if folder is not None:
            saver.save(session, Path(folder) / "spirals", step)
    return step, before, after


if __name__ == "__main__":
    step, before, after = train(*sys.argv[1:2])
    print(f"step {step}: accuracy {before:.3f} before, {after:.3f} now")
