"""Random modules that parse `tf.Example` messages, saved as SavedModels.

The features of a message are numbers and texts of fixed, varying, ragged and unknown sizes. A part
of the modules goes on with feature columns of Keras.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

WORDS = ["cat", "dog", "fish", "Bird"]


def features(tf: Any, draw: random.Random) -> dict[str, Any]:
    """Return the specification of the features to parse."""
    io = tf.io
    missing = draw.choice([None, 7])
    found = {
        "fixed": io.FixedLenFeature([2], tf.float32),
        "default": io.FixedLenFeature([], tf.int64, default_value=-1),
        "word": io.FixedLenFeature([1], tf.string, default_value=b"none"),
        "words": io.VarLenFeature(tf.string),
        "numbers": io.VarLenFeature(tf.int64),
        "rows": io.RaggedFeature(
            tf.float32, "flat", [io.RaggedFeature.RowLengths("lengths")], tf.int64
        ),
        "loose": io.RaggedFeature(tf.int64, "more"),
        "sequence": io.FixedLenSequenceFeature(
            [], tf.int64, allow_missing=True, default_value=missing
        ),
        "matrix": io.SparseFeature(["at"], "weights", tf.float32, [5]),
    }
    names = [name for name in found if draw.random() < 0.7]
    return {name: found[name] for name in [*names, "fixed", "word", "words"]}


def dense(tf: Any, draw: random.Random, value: Any) -> Any:
    """Return a dense tensor of a parsed feature."""
    if isinstance(value, tf.SparseTensor):
        fill = "" if value.dtype == tf.string else 0
        return draw.choice(
            [
                lambda: tf.sparse.to_dense(value, fill),
                lambda: (
                    tf.sparse.to_indicator(value, 9)
                    if value.dtype == tf.int64
                    else tf.sparse.fill_empty_rows(value, fill)[0].values
                ),
            ]
        )()
    if isinstance(value, tf.RaggedTensor):
        return draw.choice(
            [
                value.to_tensor,
                lambda: tf.reduce_sum(value, -1) if value.ragged_rank == 1 else value.flat_values,
                lambda: value.flat_values,
            ]
        )()
    return value


def texts_of(tf: Any, draw: random.Random, words: Any) -> Any:
    """Return texts or numbers made of a column of texts."""
    x = words[:, 0]
    numbers = tf.strings.as_string(tf.strings.length(x))
    return draw.choice(
        [
            lambda: tf.io.decode_csv(tf.strings.join([x, ",", numbers]), ["", 0])[1],
            lambda: tf.io.encode_base64(x),
            lambda: tf.io.decode_base64(tf.io.encode_base64(x, pad=True)),
            lambda: tf.strings.to_number(numbers, tf.int32),
            lambda: tf.io.decode_raw(x, tf.uint8, fixed_length=4),
            lambda: tf.strings.reduce_join(tf.strings.bytes_split(x), axis=-1, separator="."),
            lambda: tf.strings.unicode_decode(x, "UTF-8").to_tensor(),
            lambda: tf.strings.regex_full_match(x, "[a-z]+"),
            lambda: tf.map_fn(
                lambda one: tf.io.parse_tensor(
                    tf.io.serialize_tensor(tf.strings.length(one)), tf.int32
                ),
                x,
                tf.int32,
            ),
        ]
    )()


def columns(tf: Any, draw: random.Random) -> list[Any]:
    """Return feature columns of `fixed`, `word` and `words`."""
    made = tf.feature_column
    number = made.numeric_column("fixed", [2], normalizer_fn=lambda x: x * 2.0)
    buckets = made.categorical_column_with_vocabulary_list("words", WORDS[:3], num_oov_buckets=1)
    listed = made.categorical_column_with_vocabulary_list("word", WORDS, default_value=2)
    hashed = made.categorical_column_with_hash_bucket("word", 5)
    combiner = draw.choice(["sum", "mean", "sqrtn"])
    found = [
        number,
        made.bucketized_column(made.numeric_column("fixed", [2]), [-0.3, 0.0, 0.4]),
        made.embedding_column(buckets, 3, combiner=combiner),
        made.indicator_column(buckets),
        made.indicator_column(listed),
        made.embedding_column(hashed, 2),
        made.indicator_column(made.crossed_column(["word", listed], 7)),
    ]
    draw.shuffle(found)
    return found[: draw.randint(1, 5)]


def save_example_model(tf: Any, keras: Any, seed: int, folder: str) -> list[tuple[str, Any]]:
    """Save the module of a seed; return calls with their arguments."""
    draw = random.Random(seed)
    specification = features(tf, draw)
    module = tf.Module()
    module.layer = None
    if draw.random() < 0.5:
        module.layer = keras.layers.DenseFeatures(columns(tf, draw))

    def function(serialized: Any) -> dict[str, Any]:
        parsed = tf.io.parse_example(serialized, specification)
        results = {name: dense(tf, draw, value) for name, value in parsed.items()}
        results["texts"] = texts_of(tf, draw, parsed["word"])
        if module.layer is not None:
            used = {name: parsed[name] for name in ("fixed", "word", "words")}
            results["layer"] = module.layer(used)
        return results

    made = tf.function(function, autograph=False)
    signature = made.get_concrete_function(tf.TensorSpec([None], tf.string, name="examples"))
    tf.saved_model.save(module, folder, signatures=signature)
    values = np.random.RandomState(seed)
    calls = []
    for _ in range(3):
        messages = [example(tf, values) for _ in range(values.randint(1, 4))]
        calls.append(("serving_default", {"examples": np.array(messages, object)}))
    return calls


def example(tf: Any, values: Any) -> bytes:
    """Return a serialized message, with some features missing."""
    lengths = values.randint(0, 3, 2)
    places = np.flatnonzero(values.random_sample(5) < 0.5)
    words = [word.encode() for word in values.choice([*WORDS, "é"], values.randint(4))]
    texts = {"words": words, "word": [values.choice([b"dog", b"ox", b"cat"])]}
    numbers = {
        "default": [values.randint(9)],
        "numbers": values.randint(0, 9, values.randint(4)),
        "more": values.randint(0, 9, values.randint(4)),
        "sequence": values.randint(0, 9, values.randint(3)),
        "lengths": lengths,
        "at": places,
    }
    floats = {
        "fixed": values.uniform(-1, 1, 2),
        "flat": values.uniform(-1, 1, lengths.sum()),
        "weights": values.uniform(-1, 1, len(places)),
    }
    train = tf.train
    made = {name: train.Feature(bytes_list=train.BytesList(value=v)) for name, v in texts.items()}
    for name, value in numbers.items():
        made[name] = train.Feature(int64_list=train.Int64List(value=value))
    for name, value in floats.items():
        made[name] = train.Feature(float_list=train.FloatList(value=value))
    for name in ("default", "word", "words", "numbers", "more", "sequence"):
        if values.random_sample() < 0.2:
            del made[name]
    message: bytes = train.Example(features=train.Features(feature=made)).SerializeToString()
    return message
