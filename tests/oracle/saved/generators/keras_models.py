"""Random Keras models from a seed, saved as SavedModels.

A model is a stack of layers for images, sequences of numbers, numbers of words, texts, or features
in columns, in part with a second branch. Weights, also those of normalization, are random.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = ["cat", "dog", "fish", "bird", "Tree", "of"]


class Layers:
    """Draws Keras layers and applies them to a tensor of Keras."""

    def __init__(self, keras: Any, draw: random.Random) -> None:
        self.layers = keras.layers
        self.draw = draw

    def activation(self) -> str:
        return self.draw.choice(
            ["relu", "tanh", "sigmoid", "elu", "selu", "gelu", "swish", "softplus", "softmax"]
        )

    def stack(self, x: Any, kinds: list[Callable[[Any], Any]], most: int) -> Any:
        for _ in range(self.draw.randint(1, most)):
            x = self.draw.choice(kinds)(x)
        return x

    def dense(self, x: Any) -> Any:
        draw, layers = self.draw, self.layers
        units = draw.randint(1, 6)
        return draw.choice(
            [
                lambda: layers.Dense(units, self.activation(), use_bias=draw.random() < 0.8)(x),
                lambda: layers.BatchNormalization(scale=draw.random() < 0.5)(x),
                lambda: layers.LayerNormalization()(x),
                lambda: layers.UnitNormalization()(x),
                lambda: layers.Dropout(0.5)(x),
                lambda: layers.LeakyReLU()(x),
                lambda: layers.PReLU()(x),
                lambda: layers.ReLU(max_value=1.0, negative_slope=0.1)(x),
                lambda: layers.ThresholdedReLU(0.1)(x),
                lambda: layers.Rescaling(0.5, 0.1)(x),
                lambda: layers.GaussianNoise(0.3)(x),
                lambda: layers.Add()([x, layers.Dense(x.shape[-1])(x)]),
                lambda: layers.Multiply()([x, layers.Dense(x.shape[-1], "sigmoid")(x)]),
                lambda: layers.Concatenate()([x, layers.Dense(units)(x)]),
                lambda: layers.Maximum()([x, layers.Dense(x.shape[-1])(x)]),
                lambda: layers.Average()([x, layers.Dense(x.shape[-1])(x)]),
            ]
        )()

    def image(self, x: Any) -> Any:
        draw, layers = self.draw, self.layers
        count, size = draw.randint(1, 4), draw.choice([1, 2, 3])
        padding = "same" if min(x.shape[1:3]) < 4 else draw.choice(["same", "valid"])
        stride = draw.choice([1, 1, 2])
        return draw.choice(
            [
                lambda: layers.Conv2D(count, size, stride, padding, activation="relu")(x),
                lambda: layers.Conv2D(count, size, 1, "same", dilation_rate=2)(x),
                lambda: layers.DepthwiseConv2D(size, stride, padding)(x),
                lambda: layers.SeparableConv2D(count, size, stride, padding)(x),
                lambda: layers.Conv2DTranspose(count, size, stride, "same")(x),
                lambda: layers.MaxPooling2D(2, stride, padding)(x),
                lambda: layers.AveragePooling2D(2, stride, padding)(x),
                lambda: layers.UpSampling2D(2, interpolation=draw.choice(["nearest", "bilinear"]))(
                    x[:, :3, :3]
                ),
                lambda: layers.ZeroPadding2D(((1, 0), (0, 1)))(x),
                lambda: layers.GroupNormalization(1)(x),
                lambda: layers.BatchNormalization()(x),
                lambda: layers.SpatialDropout2D(0.5)(x),
                lambda: layers.Resizing(3, 4)(x),
                lambda: layers.CenterCrop(2, 2)(x),
                lambda: layers.Permute((2, 1, 3))(x),
            ]
        )()

    def sequence(self, x: Any) -> Any:
        draw, layers = self.draw, self.layers
        units = draw.randint(1, 4)
        options = {"return_sequences": True, "go_backwards": draw.random() < 0.2}
        return draw.choice(
            [
                lambda: layers.LSTM(units, **options)(x),
                lambda: layers.GRU(units, reset_after=draw.random() < 0.5, **options)(x),
                lambda: layers.SimpleRNN(units, **options)(x),
                lambda: layers.LSTM(units, unroll=x.shape[1] is not None, **options)(x),
                lambda: layers.Bidirectional(layers.LSTM(units, return_sequences=True))(x),
                lambda: layers.RNN(
                    [layers.GRUCell(units), layers.LSTMCell(2)], return_sequences=True
                )(x),
                lambda: layers.Conv1D(units, 2, padding=draw.choice(["same", "causal"]))(x),
                lambda: layers.SeparableConv1D(units, 2, padding="same")(x),
                lambda: layers.MultiHeadAttention(2, 3)(x, x, use_causal_mask=draw.random() < 0.5),
                lambda: layers.Attention()([x, x]),
                lambda: layers.AdditiveAttention()([x, x]),
                lambda: layers.TimeDistributed(layers.Dense(units))(x),
                lambda: layers.LayerNormalization()(x),
                lambda: layers.MaxPooling1D(2, 1, "same")(x),
                lambda: layers.SpatialDropout1D(0.2)(x),
            ]
        )()

    def ended(self, x: Any) -> Any:
        """Return one vector an example, of a tensor of rank 3 or 4."""
        draw, layers = self.draw, self.layers
        if x.shape.rank == 4:
            kinds = [layers.GlobalAveragePooling2D, layers.GlobalMaxPooling2D, layers.Flatten]
        else:
            kinds = [
                layers.GlobalAveragePooling1D,
                layers.GlobalMaxPooling1D,
                lambda: layers.LSTM(3),
                lambda: layers.GRU(2, dropout=0.1),
            ]
        return draw.choice(kinds)()(x)


def images(made: Layers, keras: Any) -> tuple[Any, Any]:
    source = keras.Input([6, 5, made.draw.randint(1, 3)], name="x")
    return source, made.ended(made.stack(source, [made.image], 4))


def numbers(made: Layers, keras: Any) -> tuple[Any, Any]:
    source = keras.Input([4], name="x")
    return source, made.stack(source, [made.dense], 5)


def sequences(made: Layers, keras: Any) -> tuple[Any, Any]:
    source = keras.Input([made.draw.choice([None, 5]), 3], name="x")
    x = made.layers.Masking(0.0)(source) if made.draw.random() < 0.3 else source
    return source, made.ended(made.stack(x, [made.sequence], 3))


def word_numbers(made: Layers, keras: Any) -> tuple[Any, Any]:
    source = keras.Input([made.draw.choice([None, 5])], dtype="int32", name="x")
    x = made.layers.Embedding(6, 3, mask_zero=made.draw.random() < 0.5)(source)
    return source, made.ended(made.stack(x, [made.sequence], 2))


def texts(made: Layers, keras: Any) -> tuple[Any, Any]:
    draw, layers = made.draw, made.layers
    source = keras.Input([1], dtype="string", name="x")
    mode = draw.choice(["int", "int", "multi_hot", "count", "tf_idf"])
    split = draw.choice(["whitespace", "character"])
    options = {"output_sequence_length": 5} if mode == "int" else {}
    if draw.random() < 0.3:
        options["ngrams"] = 2
    layer = layers.TextVectorization(output_mode=mode, split=split, **options)
    layer.adapt([" ".join(WORDS), "cat dog dog"])
    x = layer(source)
    if mode != "int":
        return source, layers.Dense(2)(x)
    x = layers.Embedding(60, 3)(x)
    return source, made.ended(made.stack(x, [made.sequence], 2))


def columns(made: Layers, keras: Any) -> tuple[Any, Any]:
    draw, layers = made.draw, made.layers
    number = keras.Input([1], name="number")
    word = keras.Input([1], dtype="string", name="word")
    key = keras.Input([1], dtype="int64", name="key")
    modes = ["one_hot", "multi_hot", "count"]
    scale = layers.Normalization(mean=0.3, variance=2.0)
    parts = [
        scale(number),
        layers.StringLookup(
            vocabulary=WORDS, num_oov_indices=draw.choice([1, 2]), output_mode=draw.choice(modes)
        )(word),
        layers.IntegerLookup(vocabulary=[3, 5, 9], output_mode=draw.choice(modes))(key),
        layers.Discretization([-0.5, 0.0, 0.5], output_mode="one_hot")(number),
        layers.Hashing(5, output_mode="one_hot")(word),
        layers.HashedCrossing(7, output_mode="one_hot")((word, key)),
        layers.CategoryEncoding(6, output_mode="multi_hot")(
            layers.StringLookup(vocabulary=WORDS[:5])(word)
        ),
    ]
    draw.shuffle(parts)
    x = layers.Concatenate()(parts[: draw.randint(2, 5)])
    return [number, word, key], made.stack(x, [made.dense], 2)


KINDS = [images, numbers, sequences, word_numbers, texts, columns]


def save_keras_model(tf: Any, keras: Any, seed: int, folder: str) -> list[tuple[str, Any]]:
    """Save the model of a seed; return calls of its signatures with their arguments."""
    draw = random.Random(seed)
    keras.backend.clear_session()
    made = Layers(keras, draw)
    inputs, outputs = draw.choice(KINDS)(made, keras)
    model = keras.Model(inputs, outputs)
    values = np.random.RandomState(seed)
    for weight in model.weights:
        number = isinstance(weight, tf.Variable) and weight.dtype == tf.float32
        if number and weight.shape.is_fully_defined():
            low = 0.1 if "variance" in weight.name else -0.7
            weight.assign(values.uniform(low, 0.7, weight.shape))
    tf.saved_model.save(model, folder)
    calls = []
    for count in (1, 3, 2):
        call = {one.name: drawn(one, count, values) for one in model.inputs}
        calls.append(("serving_default", call))
    return calls


def drawn(one: Any, count: int, values: Any) -> Any:
    """Return an array for an input."""
    shape = [count, *(4 if size is None else size for size in one.shape[1:])]
    if one.dtype.is_integer:
        return values.randint(0, 6, shape).astype(one.dtype.as_numpy_dtype)
    if one.dtype.name == "string":
        texts = [" ".join(values.choice([*WORDS, "?x"], 4)) for _ in range(count)]
        return np.array(texts if one.name == "x" else values.choice(WORDS, count)).reshape(shape)
    made = values.uniform(-1, 1, shape).astype(np.float32)
    made[:, -1:] *= values.random_sample() < 0.7  # masked in part
    return made
