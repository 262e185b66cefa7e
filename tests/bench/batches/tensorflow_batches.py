"""Run a model on a folder of PNG files with TensorFlow; print the times in seconds.

python tensorflow_batches.py MODEL FOLDER OUT BATCH 'tf.data'|'plain loop'
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

BEGIN = time.time()

import tensorflow as tf  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator


def decode(path: Any) -> Any:
    pixels = tf.io.decode_png(tf.io.read_file(path), channels=3)
    return tf.image.convert_image_dtype(pixels, tf.float32)


def pipeline(paths: list[str], size: int) -> Iterator[Any]:
    """Yield batches that `tf.data` reads and decodes ahead, in parallel."""
    images = tf.data.Dataset.from_tensor_slices(paths).map(decode, tf.data.AUTOTUNE)
    yield from images.batch(size).prefetch(tf.data.AUTOTUNE)


def plain_loop(paths: list[str], size: int) -> Iterator[Any]:
    """Yield batches that are decoded one image after the other."""
    for batch in itertools.batched(paths, size):
        yield tf.stack([decode(path) for path in batch])


def main() -> None:
    model, folder, out, batch, kind = sys.argv[1:]
    started, before = time.perf_counter(), os.times()
    predict = tf.saved_model.load(model).signatures["serving_default"]
    paths = sorted(str(path) for path in Path(folder).glob("*.png"))
    batches = {"tf.data": pipeline, "plain loop": plain_loop}[kind](paths, int(batch))
    remaining = iter(paths)
    with Path(out).open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["file", *(f"probabilities[{index}]" for index in range(10))])
        for images in batches:
            for row in predict(images=images)["probabilities"].numpy():
                writer.writerow([next(remaining), *row.tolist()])
    wall, after = time.perf_counter() - started, os.times()
    processor = sum(after[:4]) - sum(before[:4])
    print(json.dumps({"wall": wall, "processor": processor, "process": time.time() - BEGIN}))


if __name__ == "__main__":
    main()
