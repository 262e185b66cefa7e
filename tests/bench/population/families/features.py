"""Features before a model: buckets, crosses, vocabularies, segments, ragged text, audio."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from population.layers import F32, integers, numbers, placeholder, random, tf1, weights
from population.registry import Built, case, each

WORDS = [f"term{i}" for i in range(300)]


def _texts(count: int, words: int) -> Any:
    lines = [" ".join(random.choice(WORDS, words)) for _ in range(count)]
    return np.array([f"{line}, <b>{line[:9]}</b>." for line in lines], object)


def _table(keys: Any, values: Any, default: Any) -> Any:
    pairs = tf.lookup.KeyValueTensorInitializer(keys, values)
    return tf1.lookup.StaticHashTable(pairs, default)


@case("ragged_text_b{batch}", each(batch=[1, 32]))
def ragged_text(batch: int) -> Built:
    value = _texts(batch, 10)
    clean = tf.strings.regex_replace(
        tf.strings.lower(placeholder("text", value)), "<[^>]+>|[,.]", " "
    )
    words = tf.strings.split(clean)
    ids = words.with_values(tf.strings.to_hash_bucket_fast(words.values, 1000))
    padded = ids[:, :8].to_tensor(-1, shape=[batch, 8])
    means = tf.reduce_mean(tf.gather(weights(1000, 16), ids), 1)
    return Built({"text": value}, [padded, means, ids.row_lengths()])


@case("split_join_replace_{count}", each(count=[4, 200]))
def split_join(count: int) -> Built:
    value = _texts(count, 6)
    parts = tf.strings.split(placeholder("text", value), ",")
    swapped = tf.strings.regex_replace(parts.values, r"(\w+) (\w+)", r"\2-\1")
    joined = tf.strings.reduce_join(parts.with_values(swapped), axis=-1, separator=";")
    return Built({"text": value}, [joined, tf.strings.length(joined)])


@case("bucketized_b{batch}", each(batch=[1, 256]))
def bucketized(batch: int) -> Built:
    value = numbers(batch, 6)
    fed = placeholder("x", value)
    edges = [-1.0, -0.5, 0.0, 0.5, 1.0]
    buckets = tf.raw_ops.Bucketize(input=fed, boundaries=edges)
    hot = tf.reshape(tf.one_hot(buckets, len(edges) + 1), [batch, -1])
    return Built({"x": value}, [tf.matmul(hot, weights(36, 8)), buckets])


@case("crossed_b{batch}", each(batch=[1, 64]))
def crossed(batch: int) -> Built:
    first, second = random.choice(WORDS, batch), random.choice(WORDS, batch)
    left, right = (np.array([[w.encode()] for w in words], object) for words in (first, second))
    fed = placeholder("left", left), placeholder("right", right)
    cross = tf.sparse.to_dense(tf.sparse.cross_hashed(list(fed), num_buckets=500))
    rows = tf.gather(weights(500, 12), cross)
    return Built({"left": left, "right": right}, [cross, tf.reduce_sum(rows, 1)])


@case("lookup_chain_b{batch}", each(batch=[1, 128]))
def lookup_chain(batch: int) -> Built:
    value = np.array([w.encode() for w in random.choice([*WORDS, "other"], batch)], object)
    ids = _table(WORDS, tf.range(len(WORDS), dtype=tf.int64), -1).lookup(placeholder("w", value))
    prices = _table(tf.range(300, dtype=tf.int64), tf.range(300.0), -1.0).lookup(ids)
    names = _table(tf.range(300, dtype=tf.int64), tf.constant(WORDS[::-1]), "none").lookup(ids)
    return Built({"w": value}, [ids, prices, names])


@case("sparse_dense_{rows}", each(rows=[8, 400]))
def sparse_dense(rows: int) -> Built:
    value = numbers(rows, 40) * (random.uniform(0, 1, (rows, 40)) < 0.1)
    value = value.astype(np.float32)
    sparse = tf.sparse.from_dense(placeholder("x", value))
    product = tf.sparse.sparse_dense_matmul(sparse, weights(40, 16))
    total = tf.sparse.reduce_sum(tf.sparse.retain(sparse, sparse.values > 0.0), 1)
    return Built({"x": value}, [product, total])


@case("unique_segments_{count}", each(count=[50, 5000]))
def unique_segments(count: int) -> Built:
    keys, value = integers(count // 5, count, dtype="int64"), numbers(count, 4)
    fed = placeholder("keys", keys), placeholder("x", value)
    unique, index, counts = tf.unique_with_counts(fed[0])
    sums = tf.math.unsorted_segment_sum(fed[1], index, tf.size(unique))
    means = sums / tf.cast(counts, F32)[:, None]
    return Built({"keys": keys, "x": value}, [unique, means, tf.reduce_max(counts)])


@case("partition_stitch_{count}", each(count=[20, 3000]))
def partition_stitch(count: int) -> Built:
    value, kinds = numbers(count, 8), integers(4, count)
    fed = placeholder("x", value), placeholder("kinds", kinds)
    parts = tf.dynamic_partition(fed[0], fed[1], 4)
    places = tf.dynamic_partition(tf.range(count), fed[1], 4)
    mixed = [part * float(i + 1) for i, part in enumerate(parts)]
    return Built({"x": value, "kinds": kinds}, [tf.dynamic_stitch(places, mixed)])


@case("spectrogram_of_wav_{samples}", each(samples=[1600, 16000]))
def spectrogram(samples: int) -> Built:
    wave = np.clip(numbers(samples, 1) * 0.2, -1, 1)
    with tf.Graph().as_default(), tf1.Session() as session:
        value = np.array(session.run(tf.audio.encode_wav(wave, 16000)), object)
    audio, rate = tf.audio.decode_wav(placeholder("wav", value), desired_channels=1)
    magnitude = tf.abs(tf.signal.stft(audio[:, 0], 400, 160))
    mel = tf.matmul(magnitude, tf.signal.linear_to_mel_weight_matrix(40, 257, 16000))
    return Built({"wav": value}, [tf.math.log(mel + 1e-3), rate])


@case("beam_search_{width}", each(width=[3, 8]), rtol=1e-2)
def beam_search(width: int) -> Built:
    value = numbers(width, 32)
    step, out = weights(32, 32), weights(32, 50)

    def body(i: Any, state: Any, scores: Any, tokens: Any) -> Any:
        state = tf.tanh(tf.matmul(state, step))
        logits = tf.nn.log_softmax(tf.matmul(state, out)) + scores[:, None]
        scores, best = tf.math.top_k(tf.reshape(logits, [-1]), width)
        return i + 1, tf.gather(state, best // 50), scores, tokens.write(i, best % 50)

    found = tf.while_loop(
        lambda i, state, scores, tokens: i < 12,
        body,
        (0, placeholder("x", value), tf.zeros([width]), tf.TensorArray(tf.int32, 12)),
    )
    return Built({"x": value}, [found[2], found[3].stack()])


@case("decode_crop_resize_{count}", each(count=[1, 4]))
def decode_crop(count: int) -> Built:
    pixels = integers(255, count, 64, 72, 3, dtype="uint8")
    with tf.Graph().as_default(), tf1.Session() as session:
        files = [session.run(tf.io.encode_png(picture)) for picture in pixels]
    value = np.array(files, object)
    fed = placeholder("png", value)

    def one(content: Any) -> Any:
        picture = tf.image.central_crop(tf.io.decode_png(content, 3), 0.7)
        return tf.image.resize(picture, [32, 32]) / 255.0

    return Built({"png": value}, [tf.map_fn(one, fed, fn_output_signature=F32)])


@case("dataset_text_{count}", each(count=[10, 200]))
def dataset_text(count: int) -> Built:
    value = _texts(count, 5)
    data = tf.data.Dataset.from_tensor_slices(placeholder("text", value))
    data = data.map(lambda line: tf.strings.to_hash_bucket_fast(tf.strings.split(line, " "), 99))
    data = data.padded_batch(8, [None]).prefetch(2)
    total = data.reduce(np.int64(0), lambda state, rows: state + tf.reduce_sum(rows))
    return Built({"text": value}, [total])


@case("sequence_mask_topk_b{batch}", each(batch=[2, 64]))
def masked_topk(batch: int) -> Built:
    value, lengths = numbers(batch, 30), integers(25, batch) + 5
    fed = placeholder("x", value), placeholder("n", lengths)
    mask = tf.sequence_mask(fed[1], 30)
    flat = tf.boolean_mask(fed[0], mask)
    best, index = tf.math.top_k(flat, 5)
    ragged = tf.RaggedTensor.from_row_lengths(flat, fed[1])
    return Built({"x": value, "n": lengths}, [best, index, tf.reduce_max(ragged, 1)])


@case("ragged_batch_b{batch}", each(batch=[2, 64]))
def ragged_batch(batch: int) -> Built:
    splits = np.concatenate([[0], np.cumsum(integers(9, batch))]).astype(np.int64)
    value = integers(100, int(splits[-1]), dtype="int64")
    fed = placeholder("ids", value, [None]), placeholder("splits", splits, [batch + 1])
    ragged = tf.RaggedTensor.from_row_splits(*fed, validate=False)
    longer = tf.concat([ragged, ragged + 1], 1)
    rows = tf.nn.embedding_lookup_sparse(weights(101, 8), longer.to_sparse(), None, "mean")
    return Built({"ids": value, "splits": splits}, [longer.to_tensor(0), rows])


@case("set_and_edit_{count}", each(count=[5, 100]))
def edit_distance(count: int) -> Built:
    left, right = integers(5, count, 8), integers(5, count, 8)
    fed = placeholder("left", left), placeholder("right", right)
    sparse = [tf.sparse.from_dense(side + 1) for side in fed]
    common = tf.sets.size(tf.sets.intersection(fed[0], fed[1]))
    return Built({"left": left, "right": right}, [tf.edit_distance(*sparse), common])
