"""Random modules for texts, saved as SavedModels: files of words, ragged and sparse values.

A module has tables that are filled from files in the model, one of which has buckets for other
words. Its functions call each other, capture the tables and variables of the module and take
strings, or the parts of a ragged or a sparse tensor.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = ["cat", "dog", "fish", "Bird", "ox"]
ROWS = 3
"""Rows of each text, ragged or sparse argument."""


class Texts:
    """Draws operations on ragged numbers; a function is captured by others."""

    def __init__(self, tf: Any, draw: random.Random, module: Any) -> None:
        self.tf = tf
        self.draw = draw
        self.module = module

    def ids(self, words: Any) -> Any:
        """Return the number of each word of a ragged tensor."""
        tf, module = self.tf, self.module
        return self.draw.choice(
            [
                lambda: module.places.lookup(words),
                lambda: module.buckets.lookup(words),
                lambda: tf.ragged.map_flat_values(module.places.lookup, words) * 2,
                lambda: module.places[words],
                lambda: tf.strings.to_hash_bucket_fast(words, 6),
                lambda: tf.cast(tf.strings.length(words, unit="UTF8_CHAR"), tf.int64),
            ]
        )()

    def words(self, texts: Any) -> Any:
        """Return the ragged words of a vector of texts."""
        tf = self.tf
        x = self.draw.choice(
            [
                lambda: texts,
                lambda: tf.strings.lower(texts),
                lambda: tf.strings.regex_replace(texts, "o+", "0"),
                lambda: self.module.names.lookup(tf.cast(tf.strings.length(texts) % 6, tf.int64)),
            ]
        )()
        return self.draw.choice(
            [
                lambda: tf.strings.split(x),
                lambda: tf.strings.split(x, "o"),
                lambda: tf.strings.unicode_split(x, "UTF-8"),
                lambda: tf.strings.ngrams(tf.strings.split(x), 2, separator="-"),
                lambda: tf.strings.bytes_split(tf.strings.substr(x, 0, 3)),
            ]
        )()

    def ragged(self, x: Any) -> Any:
        """Return other ragged numbers of as many rows."""
        tf, draw = self.tf, self.draw
        return draw.choice(
            [
                lambda: x + 1,
                lambda: tf.concat([x, x * 2], axis=1),
                lambda: x[:, : draw.randrange(1, 3)],
                lambda: x[:, -draw.randrange(1, 3) :],
                lambda: tf.ragged.boolean_mask(x, x > 1),
                lambda: tf.reverse(x, [1]),
                lambda: tf.RaggedTensor.from_tensor(x.to_tensor(-1), padding=-1),
                lambda: tf.RaggedTensor.from_sparse(x.to_sparse()),
                lambda: tf.map_fn(
                    lambda row: tf.unique(row)[0],
                    x,
                    fn_output_signature=tf.RaggedTensorSpec([None], tf.int64, ragged_rank=0),
                ),
                lambda: tf.ragged.range(tf.cast(x.row_lengths(), tf.int64)),
                lambda: tf.where(x > 2, x, tf.zeros_like(x)),
                lambda: tf.gather(x, [2, 0, 1]),
                lambda: tf.ragged.stack([x, x], axis=1).merge_dims(1, 2),
                lambda: tf.RaggedTensor.from_tensor(tf.sort(x.to_tensor(7), axis=1)),
            ]
        )()  # fmt: skip

    def sparse(self, x: Any) -> Any:
        """Return a dense vector of a sparse matrix."""
        tf, draw = self.tf, self.draw
        x = draw.choice(
            [
                lambda: x,
                lambda: tf.sparse.reorder(x),
                lambda: tf.sparse.add(x, x),
                lambda: tf.sparse.concat(1, [x, x]),
                lambda: tf.sparse.retain(x, x.values > 0),
                lambda: tf.sparse.map_values(tf.square, x),
                lambda: tf.sparse.fill_empty_rows(x, 9.0)[0],
                lambda: tf.sparse.transpose(tf.sparse.transpose(x)),
                lambda: tf.sparse.slice(x, [0, 0], [ROWS, 2]),
            ]
        )()
        width = tf.cast(x.dense_shape[1], tf.int32)
        return draw.choice(
            [
                lambda: tf.sparse.reduce_sum(x, 1),
                lambda: tf.sparse.reduce_max(x, 1),
                lambda: tf.reduce_sum(tf.sparse.to_dense(tf.sparse.reorder(x)), 1),
                lambda: tf.sparse.sparse_dense_matmul(x, tf.ones([width, 1]))[:, 0],
                lambda: tf.sparse.reduce_max(tf.sparse.softmax(tf.sparse.reorder(x)), 1),
            ]
        )()  # fmt: skip

    def pooled(self, x: Any) -> Any:
        """Return a vector of ragged numbers."""
        tf, draw, rows = self.tf, self.draw, self.module.rows
        at = x % 4
        return draw.choice(
            [
                lambda: tf.cast(tf.reduce_sum(x, 1), tf.float32),
                lambda: tf.reduce_sum(tf.gather(rows, at), axis=[1, 2]),
                lambda: tf.cast(tf.reduce_max(x, 1), tf.float32) % 7,
                lambda: tf.reduce_sum(
                    tf.nn.safe_embedding_lookup_sparse(
                        rows, at.to_sparse(), combiner=draw.choice(["sum", "mean", "sqrtn"])
                    ),
                    1,
                ),
                lambda: tf.cast(x.row_lengths(), tf.float32) * self.module.scale,
            ]
        )()

    def nested(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Call a function through one or two others, the inner one of which captures a variable."""
        tf, scale = self.tf, self.module.scale
        inner = tf.function(lambda x: function(x) * scale, autograph=False)
        if self.draw.random() < 0.5:
            return inner
        return tf.function(lambda x: tf.cond(scale > 0.0, lambda: inner(x), lambda: -inner(x)))


def text_module(tf: Any, draw: random.Random, folder: str) -> Any:
    """Return a module with tables from files."""
    module = tf.Module()
    path = Path(folder) / "words.txt"
    path.write_text("".join(f"{word}\n" for word in WORDS))
    pairs = Path(folder) / "pairs.txt"
    pairs.write_text("".join(f"{word}\t{i * i}\n" for i, word in enumerate(WORDS)))
    index, line = tf.lookup.TextFileIndex.LINE_NUMBER, tf.lookup.TextFileIndex.WHOLE_LINE
    lookup = tf.lookup
    lines = lookup.TextFileInitializer(str(path), tf.string, line, tf.int64, index)
    columns = lookup.TextFileInitializer(str(pairs), tf.string, 0, tf.int64, 1, delimiter="\t")
    names = lookup.TextFileInitializer(str(path), tf.int64, index, tf.string, line)
    module.places = lookup.StaticHashTable(draw.choice([lines, columns]), -1)
    module.buckets = lookup.StaticVocabularyTable(lines, draw.randint(1, 3))
    module.names = lookup.StaticHashTable(names, "none")
    module.rows = tf.Variable(np.float32(np.arange(8).reshape(4, 2) / 8))
    module.scale = tf.Variable(draw.choice([0.5, -0.5]))
    return module


def save_text_model(tf: Any, seed: int, folder: str) -> list[tuple[str, Any]]:
    """Save the module of a seed; return calls of its signatures with their arguments."""
    draw = random.Random(seed)
    module = text_module(tf, draw, folder)
    texts = Texts(tf, draw, module)

    def of_texts(texts_in: Any) -> Any:
        x = texts.ids(texts.words(texts_in))
        for _ in range(draw.randrange(3)):
            x = texts.ragged(x)
        return texts.pooled(x)

    of_text = texts.nested(of_texts)

    def of_parts(values: Any, lengths: Any) -> Any:
        x = tf.RaggedTensor.from_row_lengths(values, lengths)
        for _ in range(draw.randint(1, 3)):
            x = texts.ragged(x)
        return {"pooled": texts.pooled(x), "lengths": x.row_lengths(), "flat": x.flat_values}

    def of_sparse(indices: Any, values: Any) -> Any:
        x = tf.SparseTensor(indices, values, [ROWS, 4])
        return {"sums": texts.nested(texts.sparse)(x)}

    spec = tf.TensorSpec
    signatures = {
        "serving_default": tf.function(lambda texts: {"y": of_text(texts)}).get_concrete_function(
            texts=spec([None], tf.string)
        ),
        "ragged": tf.function(of_parts).get_concrete_function(
            spec([None], tf.int64), spec([ROWS], tf.int64)
        ),
        "sparse": tf.function(of_sparse).get_concrete_function(
            spec([None, 2], tf.int64), spec([None], tf.float32)
        ),
    }
    tf.saved_model.save(module, folder + "/model", signatures=signatures)
    for name in ("words.txt", "pairs.txt"):
        (Path(folder) / name).unlink()  # the model has its own
    values = np.random.RandomState(seed)
    return [call(name, values) for name in ("serving_default", "ragged", "sparse") * 2]


def call(name: str, values: Any) -> tuple[str, dict[str, Any]]:
    """Return a call of a signature with random arguments."""
    if name == "serving_default":
        texts = [" ".join(values.choice([*WORDS, "zoo", "é"], values.randint(4))) for _ in range(3)]
        return name, {"texts": np.array(texts, object)}
    if name == "ragged":
        lengths = values.randint(0, 4, ROWS)
        return name, {"values": values.randint(0, 5, lengths.sum()), "lengths": lengths}
    places = np.argwhere(values.random_sample([ROWS, 4]) < 0.4)
    return name, {
        "indices": places,
        "values": values.uniform(-1, 1, len(places)).astype(np.float32),
    }
