"""Train the example network of `examples/digits` with TensorFlow, and write the example's files.

The network is a small convolutional classifier for scikit-learn's bundled handwritten digits
(8 x 8 pixels, 1797 of them, from the UCI "Optical Recognition of Handwritten Digits" set). It is
trained once and saved in the three common formats of TensorFlow models:

    saved_model_tf2/    a `tf.Module` with a `tf.function`, written by `tf.saved_model.save`
    saved_model_tf1/    a `tf.compat.v1` graph with reference variables, written by `simple_save`
    digits_frozen.pb    the same graph with its variables folded into constants

and also `heldout.npz` (every digit that was not used for training, with TensorFlow's results) and a
few of those digits as PNG. Needs an environment with `tensorflow-cpu`, `scikit-learn` and `pillow`.
graphmill needs none of them to run the model (only pillow, for the PNG files):

    python tools/train_digits.py [FOLDER]

In the same environment, each run gives the same weights: the seeds are fixed, and TensorFlow's ops
are deterministic. Another TensorFlow version or processor may change the last digits.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

tf1 = tf.compat.v1

SEED = 20
HELD_OUT = 450
EPOCHS = 60
BATCH = 32
SIDE = 8
CLASSES = 10
SIZE_LIMIT = 200_000
ACCURACY_FLOOR = 0.97
PICTURES = {"zero": 0, "three": 3, "seven": 7, "nine": 9}


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training images and labels, then held-out ones; images are uint8 [n, 8, 8, 1].

    The 17 grey levels of the set (0..16) are scaled to 0..255, so that an 8-bit PNG file represents
    the training data exactly.
    """
    digits = load_digits()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., np.newaxis]
    train_x, test_x, train_y, test_y = train_test_split(
        images, digits.target, test_size=HELD_OUT, random_state=SEED, stratify=digits.target
    )
    return train_x, train_y.astype(np.int64), test_x, test_y.astype(np.int64)


def initial_weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return He-initialized float32 weights by name: two convolutions, two dense layers."""
    shapes = {
        "conv1/kernel": (3, 3, 1, 16),
        "conv2/kernel": (3, 3, 16, 32),
        "dense/kernel": (4 * 4 * 32, 48),
        "logits/kernel": (48, CLASSES),
    }
    weights: dict[str, np.ndarray] = {}
    for name, shape in shapes.items():
        scale = np.sqrt(2.0 / np.prod(shape[:-1]))
        weights[name] = rng.normal(0.0, scale, shape).astype(np.float32)
        weights[name.replace("kernel", "bias")] = np.zeros(shape[-1], np.float32)
    return weights


def logits_of(image: tf.Tensor, weights: dict[str, tf.Variable]) -> tf.Tensor:
    """Return float32 logits [n, 10] of float32 images [n, 8, 8, 1] in 0..1; used by both styles."""
    hidden = tf.nn.conv2d(image, weights["conv1/kernel"], strides=1, padding="SAME")
    hidden = tf.nn.relu(tf.nn.bias_add(hidden, weights["conv1/bias"]))
    hidden = tf.nn.conv2d(hidden, weights["conv2/kernel"], strides=1, padding="SAME")
    hidden = tf.nn.relu(tf.nn.bias_add(hidden, weights["conv2/bias"]))
    hidden = tf.nn.max_pool2d(hidden, ksize=2, strides=2, padding="VALID")
    hidden = tf.reshape(hidden, [-1, 4 * 4 * 32])
    hidden = tf.nn.relu(tf.matmul(hidden, weights["dense/kernel"]) + weights["dense/bias"])
    return tf.matmul(hidden, weights["logits/kernel"]) + weights["logits/bias"]


class Digits(tf.Module):
    """The network as a `tf.Module`: `image` in, `probabilities` and `classes` out."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        super().__init__(name="digits")
        self.weights = {name: tf.Variable(value, name=name) for name, value in weights.items()}

    @tf.function(input_signature=[tf.TensorSpec([None, SIDE, SIDE, 1], tf.float32, name="image")])
    def classify(self, image: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return class probabilities, float32 [n, 10], and the most probable classes, int64 [n]."""
        logits = logits_of(image, self.weights)
        return {"probabilities": tf.nn.softmax(logits), "classes": tf.argmax(logits, axis=-1)}


def shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the images shifted by at most one pixel in each direction, filled with background."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    offsets = rng.choice([0, 1, 2], size=(len(images), 2), p=[0.2, 0.6, 0.2])
    return np.stack(
        [image[y : y + SIDE, x : x + SIDE] for image, (y, x) in zip(padded, offsets, strict=True)]
    )


def train(model: Digits, images: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> None:
    """Minimize the cross entropy with Adam and a half-cosine decay of the learning rate."""
    names = sorted(model.weights)
    first = {name: tf.Variable(tf.zeros_like(model.weights[name])) for name in names}
    second = {name: tf.Variable(tf.zeros_like(model.weights[name])) for name in names}

    @tf.function
    def step(batch: tf.Tensor, expected: tf.Tensor, rate: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = logits_of(batch, model.weights)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=expected, logits=logits)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, [model.weights[name] for name in names])
        for name, gradient in zip(names, gradients, strict=True):
            first[name].assign(0.9 * first[name] + 0.1 * gradient)
            second[name].assign(0.999 * second[name] + 0.001 * gradient * gradient)
            mean = first[name] / (1.0 - 0.9**count)
            spread = tf.sqrt(second[name] / (1.0 - 0.999**count)) + 1e-7
            model.weights[name].assign_sub(rate * mean / spread)
        return loss

    steps_per_epoch = len(images) // BATCH
    count = 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        for start in range(0, steps_per_epoch * BATCH, BATCH):
            chosen = order[start : start + BATCH]
            batch = (shifted(images[chosen], rng) / np.float32(255)).astype(np.float32)
            rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * count / (EPOCHS * steps_per_epoch)))
            count += 1
            loss = step(
                batch, labels[chosen], tf.constant(rate, tf.float32), tf.constant(count, tf.float32)
            )
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {float(loss):.4f}")


def save_tf1(weights: dict[str, np.ndarray], saved_model: Path, frozen: Path) -> None:
    """Write the TF1-style SavedModel (reference variables, `simple_save`) and the frozen graph."""
    with tf1.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(SEED)
        image = tf1.placeholder(tf.float32, [None, SIDE, SIDE, 1], name="image")
        variables = {
            name: tf1.get_variable(name, value.shape, tf.float32, use_resource=False)
            for name, value in weights.items()
        }
        logits = logits_of(image, variables)
        probabilities = tf.nn.softmax(logits, name="probabilities")
        classes = tf.argmax(logits, axis=-1, name="classes")
        for name, value in weights.items():
            variables[name].load(value, session)
        tf1.saved_model.simple_save(
            session,
            str(saved_model),
            inputs={"image": image},
            outputs={"probabilities": probabilities, "classes": classes},
        )
        graph_def = tf1.graph_util.convert_variables_to_constants(
            session, session.graph_def, ["probabilities", "classes"]
        )
    frozen.write_bytes(graph_def.SerializeToString(deterministic=True))


def save_tf2(model: Digits, saved_model: Path) -> None:
    """Write the TF2-style SavedModel."""
    tf.saved_model.save(model, str(saved_model), signatures={"serving_default": model.classify})


def save_pictures(
    images: np.ndarray, labels: np.ndarray, predicted: np.ndarray, folder: Path
) -> None:
    """Write a correctly classified held-out digit of each class in `PICTURES` as 8-bit PNG."""
    for name, digit in PICTURES.items():
        index = int(np.flatnonzero((labels == digit) & (predicted == digit))[0])
        Image.fromarray(images[index, :, :, 0]).save(folder / f"{name}.png", optimize=True)


def size_of(path: Path) -> int:
    """Return the size in bytes of a file, or of all files below a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(item.stat().st_size for item in path.rglob("*") if item.is_file())


def main(folder: Path) -> int:
    """Train and write the files; return 1 if the accuracy is too low or a file is too large."""
    tf.config.experimental.enable_op_determinism()
    tf.random.set_seed(SEED)
    rng = np.random.default_rng(SEED)
    train_x, train_y, test_x, test_y = load_data()
    model = Digits(initial_weights(rng))
    train(model, train_x, train_y, rng)

    outputs = model.classify(tf.constant(test_x / np.float32(255), tf.float32))
    predicted = outputs["classes"].numpy()
    accuracy = float(np.mean(predicted == test_y))
    print(f"held-out digits: {len(test_y)}, correct: {accuracy:.2%}")

    folder.mkdir(parents=True, exist_ok=True)
    targets = [folder / "saved_model_tf1", folder / "saved_model_tf2", folder / "digits_frozen.pb"]
    for target in targets[:2]:
        if target.exists():
            shutil.rmtree(target)
    save_tf2(model, targets[1])
    save_tf1({name: value.numpy() for name, value in model.weights.items()}, targets[0], targets[2])
    probabilities = outputs["probabilities"].numpy()
    np.savez_compressed(
        folder / "heldout.npz",
        image=test_x,
        label=test_y.astype(np.uint8),
        probabilities=probabilities,
    )
    save_pictures(test_x, test_y, predicted, folder)
    for target in targets:
        print(f"{target.name}: {size_of(target):,} bytes")
    fits = all(size_of(target) < SIZE_LIMIT for target in targets)
    return 0 if fits and accuracy >= ACCURACY_FLOOR else 1


if __name__ == "__main__":
    default = Path(__file__).resolve().parent.parent / "examples" / "digits"
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else default))
