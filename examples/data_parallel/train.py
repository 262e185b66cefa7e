"""Train a small network on four workers of a Ray cluster; training survives killed workers.

    pip install 'graphmill[ray]'
    python examples/data_parallel/train.py FOLDER [--steps 400] [--kill]

Each worker computes the gradient of its part of every batch; the first one holds the variables and
applies the mean. Checkpoints are written to FOLDER, which all workers must be able to access. With
`--kill` each worker is killed once: Ray restarts it, and training continues from the latest
checkpoint.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

import graphmill
from graphmill.ops import array, math, nn

DIGITS = Path(__file__).parents[1] / "digits"
WORKERS = 4
BATCH = 32  # of each worker
HIDDEN = 32


def digits(name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return images, float32 `[n, 64]` in 0..1, and labels, int32 `[n]`."""
    with np.load(DIGITS / f"{name}.npz") as stored:
        images = stored["image"].astype(np.float32).reshape(-1, 64) / np.float32(255)
        return images, stored["label"].astype(np.int32)


class Training:
    """The training graph: one tower per worker, and the update with the mean gradient.

    The batch of a step depends only on the global step, so a run that continues from a checkpoint
    uses the same data as an uninterrupted run.

    Attributes:
        graph: the graph.
        step: applies the mean gradient of one batch.
        loss: mean loss of that batch.
        accuracy: fraction of the held-out digits that are classified correctly.
    """

    def __init__(self, num_workers: int = WORKERS) -> None:
        self.graph = graphmill.Graph()
        with self.graph.as_default():
            with self.graph.device("/job:worker/task:0"):
                self.number = graphmill.train.get_or_create_global_step()
                self._make_variables()
            losses, gradients = [], []
            for worker in range(num_workers):
                with self.graph.device(f"/job:worker/task:{worker}"):
                    loss = self._tower(worker, num_workers)
                    losses.append(loss)
                    gradients.append(graphmill.gradients(loss, self.variables))
            with self.graph.device("/job:worker/task:0"):
                self.loss = math.add_n(losses) / np.float32(num_workers)
                means = [
                    math.add_n(list(parts)) / np.float32(num_workers)
                    for parts in zip(*gradients, strict=True)
                ]
                optimizer = graphmill.train.AdamOptimizer(3e-3)
                pairs = list(zip(means, self.variables, strict=True))
                self.step = optimizer.apply_gradients(pairs, self.number)
                self.accuracy = self._accuracy()

    def _make_variables(self) -> None:
        rng = np.random.default_rng(0)
        shapes = {"w1": (64, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, 10), "b2": (10,)}
        self.variables = [
            graphmill.Variable(
                rng.normal(0, np.sqrt(2 / shape[0]) if len(shape) > 1 else 0, shape).astype("f4"),
                name=name,
            )
            for name, shape in shapes.items()
        ]

    def _logits(self, images: Any) -> Any:
        w1, b1, w2, b2 = self.variables
        return math.mat_mul(nn.relu(math.mat_mul(images, w1) + b1), w2) + b2

    def _tower(self, worker: int, num_workers: int) -> Any:
        """Return the loss of a worker's part of the batch of this step."""
        images, labels = (part[worker::num_workers] for part in digits("training"))
        num_batches = len(images) // BATCH
        first = math.floor_mod(math.cast(self.number, DstT="int32"), np.int32(num_batches))
        start = array.reshape(first * np.int32(BATCH), [1])
        zero = np.zeros(1, np.int32)
        some = array.slice(images, array.concat_v2([start, zero], np.int32(0)), [BATCH, 64])
        wanted = array.slice(labels, start, [BATCH])
        found = nn.sparse_softmax_cross_entropy_with_logits(self._logits(some), wanted)
        return math.mean(found.loss, [0])

    def _accuracy(self) -> Any:
        images, labels = digits("heldout")
        right = math.equal(math.arg_max(self._logits(images), np.int32(1)), labels.astype("i8"))
        return math.mean(math.cast(right, DstT="float32"), [0])

    def run(self, target: str, folder: str, num_steps: int, hooks: Any = ()) -> tuple[float, float]:
        """Train until the global step is `num_steps`; return the last loss and the accuracy.

        Args:
            target: the target of the sessions.
            folder: the folder of the checkpoints.
            num_steps: the global step at which training stops.
            hooks: additional hooks of the session.
        """
        with self.graph.as_default():
            stop = graphmill.train.StopAtStepHook(last_step=num_steps)
            session = graphmill.train.MonitoredTrainingSession(
                target,
                checkpoint_dir=folder,
                save_checkpoint_steps=20,
                hooks=[stop, *hooks],
                max_recovery_secs=120,
            )
        loss = accuracy = float("nan")
        with session:
            while not session.should_stop():
                _, loss = session.run([self.step, self.loss])
            accuracy = session.run(self.accuracy)
        return float(loss), float(accuracy)


class KillWorkers(graphmill.train.SessionRunHook):
    """Kills the workers' processes one by one, each at a given step.

    Args:
        cluster: the cluster of the workers.
        number: the global step.
        steps: the index of the worker to kill, by step.
    """

    def __init__(self, cluster: Any, number: Any, steps: dict[int, int]) -> None:
        self._cluster, self._number = cluster, number
        self._steps = dict(steps)

    def before_run(self, context: Any) -> Any:
        """Fetch the global step."""
        del context
        return graphmill.train.SessionRunArgs(self._number)

    def after_run(self, context: Any, values: Any) -> None:
        """Kill the worker that is due at this step; only once, though the step may be repeated."""
        del context
        worker = self._steps.pop(int(values.results), None)
        if worker is not None:
            print(f"step {int(values.results)}: worker {worker} is killed")
            self._cluster.kill_task("worker", worker)


def main() -> None:
    """Train with the options of the command line."""
    from graphmill_plugins.distributed.ray import start_cluster

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--kill", action="store_true")
    args = parser.parse_args()
    training = Training()
    resources = {"CPU": min(1.0, (os.cpu_count() or 1) / WORKERS)}
    config = {"graphmill": {"allow": [f"fs.write:{Path(args.folder).absolute()}"]}}
    with start_cluster(WORKERS, name="digits", resources=resources, config=config) as cluster:
        hooks = []
        if args.kill:
            steps = {args.steps * (k + 1) // (WORKERS + 1): k for k in range(WORKERS)}
            hooks.append(KillWorkers(cluster, training.number, steps))
        loss, accuracy = training.run(cluster.target, args.folder, args.steps, hooks)
        for task in cluster.status():
            print(f"worker {task.index} at {task.address}: {task.health}")
    print(f"loss {loss:.6f}, {accuracy:.1%} of the held-out digits are classified correctly")


if __name__ == "__main__":
    main()
