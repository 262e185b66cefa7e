"""Strings: normalization, splitting, n-grams, vocabularies."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from population.layers import placeholder, random, tf1
from population.registry import Built, case, each

WORDS = [f"word{i}" for i in range(400)]


def _lines(count: int, words: int = 12) -> Any:
    rows = random.choice(WORDS, (count, words))
    return np.array([" ".join(row).title() + "!" for row in rows], object)


def _table(values: list[str]) -> Any:
    ids = tf.range(len(values), dtype=tf.int64)
    pairs = tf.lookup.KeyValueTensorInitializer(tf.constant(values), ids)
    return tf1.lookup.StaticHashTable(pairs, -1)


@case("normalize_b{batch}", each(batch=[1, 64, 1000]))
def normalize(batch: int) -> Built:
    value = _lines(batch)
    text = tf.strings.strip(tf.strings.lower(placeholder("text", value)))
    cleaned = tf.strings.regex_replace(text, r"[^a-z0-9 ]+", "")
    return Built({"text": value}, [cleaned, tf.strings.length(cleaned)])


@case("vocabulary_b{batch}", each(batch=[1, 64]))
def vocabulary(batch: int) -> Built:
    value = _lines(batch)
    words = tf.strings.split(tf.strings.lower(placeholder("text", value))).to_tensor("")
    ids = _table(WORDS).lookup(words)
    return Built({"text": value}, [ids, tf.reduce_sum(tf.one_hot(ids, 400), 1)])


@case("ngrams_b{batch}", each(batch=[1, 32]))
def ngrams(batch: int) -> Built:
    value = _lines(batch)
    words = tf.strings.split(placeholder("text", value))
    grams = tf.strings.ngrams(words, [2, 3])
    hashed = tf.strings.to_hash_bucket_fast(grams.values, 5000)
    return Built({"text": value}, [hashed, grams.row_splits])


@case("characters_b{batch}", each(batch=[1, 32]))
def characters(batch: int) -> Built:
    value = _lines(batch)
    points = tf.strings.unicode_decode(placeholder("text", value), "UTF-8")
    return Built({"text": value}, [points.to_tensor(0), points.row_lengths()])


@case("substrings_{count}", each(count=[4, 500]))
def substrings(count: int) -> Built:
    value = _lines(count)
    text = placeholder("text", value)
    parts = tf.strings.substr(text, 2, 5)
    joined = tf.strings.join([parts, tf.strings.upper(parts)], "-")
    return Built({"text": value}, [joined, tf.strings.reduce_join(parts, 0)])


@case("match_and_hash_{count}", each(count=[4, 500]))
def match_and_hash(count: int) -> Built:
    value = _lines(count)
    text = placeholder("text", value)
    matched = tf.strings.regex_full_match(text, ".*word1.*")
    strong = tf.strings.to_hash_bucket_strong(text, 1000, [1, 2])
    return Built({"text": value}, [matched, strong, tf.strings.to_hash_bucket(text, 77)])


@case("format_numbers_{count}", each(count=[4, 1000]))
def format_numbers(count: int) -> Built:
    value = random.integers(0, 9999, count).astype(np.int32)
    text = tf.strings.as_string(placeholder("x", value), width=6, fill="0")
    return Built({"x": value}, [tf.strings.join(["id", text])])


@case("base64_and_lookup")
def base64() -> Built:
    value = _lines(50)
    encoded = tf.io.encode_base64(placeholder("text", value))
    decoded = tf.io.decode_base64(encoded)
    return Built({"text": value}, [encoded, _table(list(value[:20])).lookup(decoded)])
