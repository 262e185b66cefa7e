"""Random training steps of TensorFlow 2, with Keras' optimizers, saved as signatures.

A module has three variables, an optimizer with its slots, a schedule of its rate, and clipping. Its
signature `train` takes a step, `state` returns all variables.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

STEPS = 6


def rate_of(keras: Any, draw: random.Random) -> Any:
    """Return a number or a schedule."""
    made, rate = keras.optimizers.schedules, draw.choice([0.02, 0.1])
    return draw.choice(
        [
            lambda: rate,
            lambda: made.ExponentialDecay(rate, 2, 0.7, staircase=draw.random() < 0.5),
            lambda: made.CosineDecay(rate / 9, 4, 0.1, warmup_target=rate, warmup_steps=2),
            lambda: made.CosineDecayRestarts(rate, 2, alpha=0.1),
            lambda: made.PolynomialDecay(rate, 3, 0.01, 0.5, cycle=draw.random() < 0.5),
            lambda: made.PiecewiseConstantDecay([1, 3], [rate, rate / 2, rate / 4]),
            lambda: made.InverseTimeDecay(rate, 2, 0.5),
        ]
    )()


def optimizer_of(keras: Any, draw: random.Random) -> Any:
    """Return an optimizer with clipping, weight decay or averages, or none of them."""
    made, rate = keras.optimizers, rate_of(keras, draw)
    options: dict[str, Any] = draw.choice(
        [{}, {}, {"clipnorm": 0.1}, {"clipvalue": 0.05}, {"global_clipnorm": 0.2}]
    )
    if draw.random() < 0.2:
        return draw.choice(
            [
                lambda: made.legacy.SGD(rate, 0.9, nesterov=draw.random() < 0.5, **options),
                lambda: made.legacy.Adam(rate, amsgrad=draw.random() < 0.5, **options),
                lambda: made.legacy.RMSprop(rate, momentum=0.5, centered=True, **options),
                lambda: made.legacy.Ftrl(rate, l1_regularization_strength=0.01, **options),
                lambda: made.legacy.Nadam(0.05, **options),
            ]
        )()
    options["jit_compile"] = False
    if draw.random() < 0.3:
        options["weight_decay"] = 0.05
    if draw.random() < 0.3:
        options |= {"use_ema": True, "ema_momentum": 0.8}
        options["ema_overwrite_frequency"] = draw.choice([None, 2])
    return draw.choice(
        [
            lambda: made.SGD(rate, draw.choice([0.0, 0.9]), draw.random() < 0.5, **options),
            lambda: made.Adam(rate, epsilon=1e-3, amsgrad=draw.random() < 0.5, **options),
            lambda: made.AdamW(rate, **{"weight_decay": 0.05, **options}, epsilon=1e-3),
            lambda: made.Adamax(rate, epsilon=1e-3, **options),
            lambda: made.Nadam(rate, epsilon=1e-3, **options),
            lambda: made.RMSprop(
                rate, momentum=0.5, epsilon=1e-3, centered=draw.random() < 0.5, **options
            ),
            lambda: made.Adagrad(rate, **options),
            lambda: made.Adadelta(rate, **options),
            lambda: made.Ftrl(rate, l1_regularization_strength=0.01, beta=0.1, **options),
            lambda: made.Adafactor(rate, **options),
            lambda: made.Lion(0.01, **options),
        ]
    )()


def optimizer_model(tf: Any, keras: Any, seed: int) -> tuple[Any, dict[str, Any]]:
    """Return the module of a seed and its signatures."""
    draw, values = random.Random(seed), np.random.RandomState(seed)

    def variable(name: str, *shape: int) -> Any:
        return tf.Variable(values.uniform(-0.5, 0.5, shape).astype(np.float32), name=name)

    module = tf.Module()
    module.w, module.b, module.table = (
        variable("w", 3, 4), variable("b", 4), variable("table", 6, 4)
    )  # fmt: skip
    weights = [module.w, module.b, module.table]
    module.optimizer = optimizer_of(keras, draw)
    if hasattr(module.optimizer, "build"):
        module.optimizer.build(weights)
    loss_of = draw.choice([tf.square, tf.abs])
    trips = draw.randrange(3)

    @tf.function(autograph=False)
    def train(x: Any, ids: Any, y: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            hidden = tf.tanh(x @ module.w + module.b + tf.gather(module.table, ids))
            if trips:
                hidden = tf.while_loop(
                    lambda i, h: i < trips, lambda i, h: (i + 1, tf.sin(h + module.b)), (0, hidden)
                )[1]
            loss = tf.reduce_mean(loss_of(tf.reduce_sum(hidden, 1) - y))
        module.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": loss}

    @tf.function(autograph=False)
    def state() -> dict[str, Any]:
        of_optimizer = module.optimizer.variables
        slots = of_optimizer() if callable(of_optimizer) else of_optimizer
        return {f"v{i}": tf.identity(v) for i, v in enumerate([*weights, *slots])}

    spec = tf.TensorSpec
    step = train.get_concrete_function(
        spec([None, 3], tf.float32), spec([None], tf.int32), spec([None], tf.float32)
    )
    return module, {"train": step, "state": state.get_concrete_function()}


def batches(seed: int) -> list[dict[str, Any]]:
    """Return the arguments of each step."""
    values = np.random.RandomState(seed)
    return [
        {
            "x": values.uniform(-1, 1, (5, 3)).astype(np.float32),
            "ids": values.randint(0, 6, 5).astype(np.int32),
            "y": values.uniform(-1, 1, 5).astype(np.float32),
        }
        for _ in range(STEPS)
    ]
