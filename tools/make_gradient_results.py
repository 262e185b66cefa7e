#!/usr/bin/env python3
"""Write TensorFlow's gradients of the cases in tests/data/gradients: one .npz file per case file.

Needs an environment with `tensorflow-cpu`, NumPy and this checkout:

    python tools/make_gradient_results.py
"""

from __future__ import annotations

from pathlib import Path

import _checkout  # noqa: F401 - puts the checkout on the path
import numpy as np

from graphmill.testing.case import load_cases
from graphmill.testing.oracle.gradient_results import GradientRequest, tensorflow_gradients

FOLDER = Path(__file__).parents[1] / "tests/data/gradients"
ORDERS = {"first": 1, "second": 2}


def main() -> None:
    for stem, order in ORDERS.items():
        arrays = {}
        for case in load_cases(stems=[stem], folder=FOLDER):
            result = tensorflow_gradients(case, GradientRequest(order))
            if result.error:
                raise SystemExit(
                    f"{case.id}: TensorFlow failed with {result.error}: {result.message}"
                )
            pairs = zip(result.outputs, result.dtypes, strict=True)
            arrays.update({f"{case.id}|{i}|{name}": v for i, (v, name) in enumerate(pairs)})
        np.savez_compressed(FOLDER / f"{stem}.npz", **arrays)
        print(f"{stem}: {len(arrays)} gradients")


if __name__ == "__main__":
    main()
