"""Compare a batch run over many small images with the same loop in TensorFlow.

    python tests/bench/batches --tensorflow /path/to/python [--files 10000] [--side 32]
        [--batch 32] [--rounds 3]

The model is a small convolutional network. Each process reads all files, decodes them, scales the
pixels to 0..1, runs batches, and writes a CSV file with a line for each image. The time begins when
the libraries are imported, and ends when the file is written, so it includes loading the model and
all compilation. TensorFlow has two loops: in one, `tf.data` reads and decodes in parallel and ahead
of the model; a plain one decodes one file after the other. Processes take
turns; the table has the medians of the rounds.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[2]
sys.path[:0] = [str(ROOT / "core"), str(ROOT / "plugins")]

import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402

import graphmill  # noqa: E402
from graphmill import ops  # noqa: E402

NUM_CLASSES: Final = 10


class Times(NamedTuple):
    """The durations of one run, in seconds.

    Attributes:
        wall: from the first file to the complete CSV file.
        processor: the processor time of all threads and processes in it.
        process: from the start of the interpreter to its end.
    """

    wall: float
    processor: float
    process: float


def write_images(folder: Path, count: int, side: int) -> None:
    """Write RGB images of smooth shapes and some noise, as an encoder of photographs filters them.

    Args:
        folder: where to.
        count: how many.
        side: their height and width in pixels.
    """
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:side, :side] / side
    for number in range(count):
        phases = rng.uniform(0, 6, (3, 1, 1))
        waves = np.sin(phases + 5 * rows) * np.cos(phases * 2 - 4 * columns)
        noisy = 128 + 100 * waves + rng.normal(0, 6, (3, side, side))
        pixels = np.clip(noisy, 0, 255).astype(np.uint8).transpose(1, 2, 0)
        Image.fromarray(pixels).save(folder / f"{number:06d}.png")


def write_model(folder: Path, side: int) -> None:
    """Write a model: inputs `images` of shape [?, side, side, 3], outputs `probabilities`."""
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        scale = np.sqrt(2 / np.prod(shape[:-1]))
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    graph = graphmill.Graph()
    with graph.as_default():
        images = value = graph.placeholder("float32", [None, side, side, 3], name="images")
        for before, after in ((3, 8), (8, 16)):
            filters = graph.constant(weights(3, 3, before, after))
            value = ops.nn.conv2d(value, filters, strides=[1, 2, 2, 1], padding="SAME")
            value = ops.nn.relu(value)
        value = ops.math.mean(value, [1, 2])
        value = ops.math.mat_mul(value, graph.constant(weights(16, NUM_CLASSES)))
        value = ops.nn.softmax(value)
    with graphmill.Session(graph=graph) as session:
        graphmill.saved_model.simple_save(
            session, folder, {"images": images}, {"probabilities": value}
        )


def run_process(python: str, arguments: list[str], *, is_ours: bool) -> Times:
    """Run one of the two scripts, and return its times."""
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")
    environment.pop("PYTHONPATH", None)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what pip installs has its bytecode
    if is_ours:
        environment["PYTHONPATH"] = os.pathsep.join((str(ROOT / "core"), str(ROOT / "plugins")))
    script = "graphmill_batches.py" if is_ours else "tensorflow_batches.py"
    command = [python, str(HERE / script), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return Times(**json.loads(done.stdout.splitlines()[-1]))


def check_equal(first: Path, second: Path) -> None:
    """Raise unless two CSV files have the same probabilities; columns of other kinds may differ."""
    ours, theirs = (_probabilities(path) for path in (first, second))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


def _probabilities(path: Path) -> np.ndarray:
    with path.open(newline="") as stream:
        header, *lines = csv.reader(stream)
    columns = [index for index, name in enumerate(header) if name.startswith("probabilities[")]
    return np.array([[float(line[index]) for index in columns] for line in lines])


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tensorflow", help="an interpreter with TensorFlow")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder, model = Path(scratch, "pics"), Path(scratch, "model")
        folder.mkdir()
        write_images(folder, options.files, options.side)
        write_model(model, options.side)
        results: dict[str, list[Times]] = {}
        for _ in range(options.rounds):
            for name in ("graphmill", "tf.data", "plain loop"):
                is_ours = name == "graphmill"
                python = sys.executable if is_ours else options.tensorflow
                if python is None:
                    continue
                out = Path(scratch, f"{name}.csv")
                arguments = [str(model), str(folder), str(out), str(options.batch)]
                arguments += [] if is_ours else [name]
                results.setdefault(name, []).append(run_process(python, arguments, is_ours=is_ours))
                check_equal(Path(scratch, "graphmill.csv"), out)
    print("| system | seconds | processor | whole process | images/s |")
    print("|---|---:|---:|---:|---:|")
    for name, found in results.items():
        wall, processor, process = (statistics.median(times) for times in zip(*found, strict=True))
        rate = options.files / wall
        print(f"| {name} | {wall:.2f} | {processor:.2f} | {process:.2f} | {rate:.0f} |")


if __name__ == "__main__":
    main()
