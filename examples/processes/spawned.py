"""Run a model in spawned worker processes, which also works with JAX and GPUs.

    python spawned.py

Each worker loads the model once, in its initializer; tasks send arrays.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import graphmill

FOLDER = Path(__file__).parents[1] / "digits"
_loaded: dict[str, Any] = {}


def load(model: Path) -> None:
    """Load the model of this worker."""
    _loaded["classify"] = graphmill.saved_model.load(model).signatures["serving_default"]


def classify(images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the classes of some images."""
    return np.asarray(_loaded["classify"](image=images)["classes"])


def main() -> None:
    """Classify the held-out digits in two processes, and print the accuracy."""
    with np.load(FOLDER / "heldout.npz") as digits:
        images, labels = digits["image"] / np.float32(255), digits["label"]
    context = multiprocessing.get_context("spawn")
    model = FOLDER / "saved_model_tf2"
    with ProcessPoolExecutor(2, context, initializer=load, initargs=(model,)) as workers:
        classes = np.concatenate(list(workers.map(classify, np.array_split(images, 6))))
    print(f"accuracy {(classes == labels).mean():.4f}")


if __name__ == "__main__":
    main()
