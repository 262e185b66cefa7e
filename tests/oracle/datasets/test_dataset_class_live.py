"""`graphmill.data.Dataset` and `tf.data.Dataset`: one program, equal elements in equal order.

Each program is called with TensorFlow's modules and with ours, and iterated over twice without a
session; then the elements come from an iterator of a graph, too.
"""

from __future__ import annotations

import gzip
import types

import numpy as np
import pytest

import graphmill
from graphmill.data import Dataset, make_one_shot_iterator

pytestmark = pytest.mark.oracle
tf = pytest.importorskip("tensorflow")

X = np.arange(24, dtype=np.float32).reshape(8, 3)
NAMES = ["a", "bb", "", "dddd", "e", "f", "gg", "h"]
AUTO = -1


def theirs():
    return types.SimpleNamespace(
        Dataset=tf.data.Dataset,
        F=tf.compat.v1,
        TFRecordDataset=tf.data.TFRecordDataset,
        TextLineDataset=tf.data.TextLineDataset,
        FixedLengthRecordDataset=tf.data.FixedLengthRecordDataset,
    )


def ours():
    return types.SimpleNamespace(
        Dataset=Dataset,
        F=graphmill.functions,
        TFRecordDataset=graphmill.data.TFRecordDataset,
        TextLineDataset=graphmill.data.TextLineDataset,
        FixedLengthRecordDataset=graphmill.data.FixedLengthRecordDataset,
    )


def flat(structure):
    """Return the leaves, each with its path."""
    if isinstance(structure, dict):
        return [(f"[{k}]{p}", x) for k in sorted(structure) for p, x in flat(structure[k])]
    if isinstance(structure, tuple):
        return [(f"[{i}]{p}", x) for i, part in enumerate(structure) for p, x in flat(part)]
    return [("", structure)]


def check_elements(expected, actual):
    expected, actual = list(expected), list(actual)
    assert len(expected) == len(actual), (expected, actual)
    for one, other in zip(expected, actual, strict=True):
        assert [path for path, _ in flat(one)] == [path for path, _ in flat(other)]
        for (_, left), (_, right) in zip(flat(one), flat(other), strict=True):
            assert np.asarray(left).dtype.kind == np.asarray(right).dtype.kind
            np.testing.assert_array_equal(left, right)


def check_spec(expected, actual):
    pairs = zip(flat(expected), flat(actual), strict=True)
    for (left_path, left), (right_path, right) in pairs:
        assert left_path == right_path
        assert left.dtype.name == right.dtype.name
        shape = left.shape.as_list() if left.shape.rank is not None else None
        assert (right.shape.as_list() if right.shape.rank is not None else None) == shape


def structured(m):
    return m.Dataset.from_tensor_slices({"x": X, "label": (NAMES, np.arange(8))})


def lengths(m):
    return m.Dataset.range(1, 9).map(lambda x: m.F.fill([x % 6 + 1], x))


def with_key(m, key, group):
    return m.Dataset.zip((m.Dataset.from_tensors(key).repeat(), group))


def letters(m):
    return [m.Dataset.from_tensor_slices([c * n for n in range(1, 5)]) for c in "abc"]


def classes(m):
    labels = np.array([0, 0, 1, 0, 2, 0, 0, 1, 0, 0] * 8, np.int32)
    return m.Dataset.from_tensor_slices((labels, np.arange(80)))


def rows(m):
    return m.Dataset.range(5).map(lambda n: m.F.fill([n], n))


def yielded():
    yield 1
    yield np.int64(2)
    yield np.array(3, np.int8)


def yielded_parts(count):
    for number in range(int(count)):
        yield {"b": (f"row {number}", number), "a": [number / 2] * number}


PROGRAMS = {
    "from_tensors": lambda m: m.Dataset.from_tensors((X, {"a": 1, "b": [1.5, 2.0]})),
    "from_tensor_slices": structured,
    "range": lambda m: m.Dataset.range(3, 20, 4),
    "range_down": lambda m: m.Dataset.range(5, -3, -2, output_type="int32"),
    "zip": lambda m: m.Dataset.zip((m.Dataset.range(3), structured(m))),
    "zip_dict": lambda m: m.Dataset.zip({"b": m.Dataset.range(3), "a": m.Dataset.range(9)}),
    "zip_args": lambda m: m.Dataset.zip(m.Dataset.range(3), m.Dataset.range(4)),
    "concatenate": lambda m: m.Dataset.range(3).batch(2).concatenate(m.Dataset.range(5).batch(5)),
    "map": lambda m: m.Dataset.range(5).map(lambda x: x * x + 1),
    "map_structure": lambda m: structured(m).map(
        lambda e: {"y": m.F.reduce_sum(e["x"]), "n": e["label"][1], "c": [1, 2]}
    ),
    "map_tuple": lambda m: m.Dataset.zip((m.Dataset.range(4), m.Dataset.range(4))).map(
        lambda a, b: (a + b, m.F.cast(a, "float32"))
    ),
    "map_list": lambda m: m.Dataset.range(3).map(lambda x: [x, x + 1]),
    "map_parallel": lambda m: m.Dataset.range(20).map(lambda x: -x, num_parallel_calls=4),
    "map_auto": lambda m: m.Dataset.range(9).map(lambda x: x % 3, AUTO, deterministic=True),
    "filter": lambda m: m.Dataset.range(9).filter(lambda x: x > 4),
    "take_while": lambda m: m.Dataset.range(9).take_while(lambda x: x < 4),
    "flat_map": lambda m: m.Dataset.range(5).flat_map(lambda x: m.Dataset.range(x)),
    "flat_map_outer": lambda m: m.Dataset.range(3).flat_map(
        lambda x: m.Dataset.zip((m.Dataset.from_tensors(x), m.Dataset.range(2)))
    ),
    "interleave": lambda m: m.Dataset.range(6).interleave(
        lambda x: m.Dataset.from_tensors(x).repeat(3), 2, 2
    ),
    "interleave_parallel": lambda m: m.Dataset.range(6).interleave(
        lambda x: m.Dataset.from_tensors(x).repeat(3),
        cycle_length=3,
        num_parallel_calls=2,
        deterministic=True,
    ),
    "shuffle": lambda m: m.Dataset.range(30).shuffle(8, seed=3),
    "shuffle_fixed": lambda m: m.Dataset.range(9).shuffle(9, 3, reshuffle_each_iteration=False),
    "shuffle_negative_seed": lambda m: m.Dataset.range(9).shuffle(9, -5).repeat(2),
    "shuffle_twice": lambda m: m.Dataset.range(9).shuffle(4, 1).shuffle(3, 2),
    "shuffle_batch_map": lambda m: structured(m).shuffle(5, 7).batch(3).map(lambda e: e["x"] * 2),
    "batch": lambda m: structured(m).batch(3),
    "batch_drop": lambda m: structured(m).batch(3, drop_remainder=True),
    "batch_parallel": lambda m: m.Dataset.range(10).batch(4, num_parallel_calls=2),
    "padded_batch": lambda m: (
        m.Dataset.range(1, 6).map(lambda x: m.F.fill([x], x)).padded_batch(2, [None], np.int64(-1))
    ),
    "padded_batch_shapes": lambda m: (
        m.Dataset.range(5)
        .map(lambda x: {"a": m.F.fill([x], 1.5), "b": x})
        .padded_batch(2, {"a": [6], "b": []}, drop_remainder=True)
    ),
    "padded_batch_default": lambda m: m.Dataset.from_tensor_slices((NAMES, X)).padded_batch(3),
    "unbatch": lambda m: structured(m).batch(3).unbatch(),
    "repeat": lambda m: m.Dataset.range(3).repeat(2),
    "repeat_take": lambda m: m.Dataset.range(3).repeat().take(7),
    "skip": lambda m: m.Dataset.range(9).skip(4),
    "shard": lambda m: m.Dataset.range(9).shard(3, 1),
    "prefetch": lambda m: m.Dataset.range(9).prefetch(2),
    "cache": lambda m: m.Dataset.range(9).shuffle(9, 1).cache(),
    "cache_shuffle": lambda m: m.Dataset.range(9).cache().shuffle(9, 1),
    "enumerate": lambda m: m.Dataset.from_tensor_slices(NAMES).enumerate(start=5),
    "window": lambda m: m.Dataset.range(9).window(3).flat_map(lambda w: w.batch(3)),
    "window_stride": lambda m: (
        m.Dataset.range(9)
        .window(3, shift=2, stride=2, drop_remainder=True)
        .flat_map(lambda w: w.batch(2))
    ),
    "window_structure": lambda m: (
        structured(m)
        .window(3)
        .flat_map(lambda w: m.Dataset.zip((w["x"].batch(2), w["label"][0].batch(2))))
    ),
    "apply": lambda m: m.Dataset.range(5).apply(lambda d: d.repeat(2)),
    "scan": lambda m: m.Dataset.range(5).scan(np.int64(3), lambda s, x: (s + x, (s, {"x": x}))),
    "scan_structure": lambda m: structured(m).scan(
        {"n": np.int64(0), "last": b""},
        lambda s, e: ({"n": s["n"] + e["label"][1], "last": e["label"][0]}, s),
    ),
    "scan_growing_state": lambda m: m.Dataset.range(4).scan(
        np.zeros(0, np.int64), lambda s, x: (m.F.concat([s, [x]], 0), s)
    ),
    "unique": lambda m: m.Dataset.from_tensor_slices([3, 1, 3, 2, 1]).unique(),
    "unique_strings": lambda m: m.Dataset.from_tensor_slices(["b", "a", "b"]).unique(),
    "unique_rows": lambda m: m.Dataset.from_tensor_slices({"a": [[1, 2], [1, 2], [2, 1]]}).unique(),
    "group_by_window": lambda m: m.Dataset.range(20).group_by_window(
        lambda x: x % 3, lambda key, group: with_key(m, key, group.batch(4)), window_size=4
    ),
    "group_by_window_sizes": lambda m: structured(m).group_by_window(
        lambda e: e["label"][1] % 2,
        lambda _, group: group.batch(9),
        window_size_func=lambda key: key + 1,
    ),
    "buckets": lambda m: lengths(m).bucket_by_sequence_length(
        lambda x: m.F.shape(x)[0], [3, 5], [2, 3, 2]
    ),
    "buckets_padded": lambda m: lengths(m).bucket_by_sequence_length(
        lambda x: m.F.shape(x)[0],
        bucket_boundaries=[4, 10],
        bucket_batch_sizes=[2, 3, 1],
        padded_shapes=[None],
        padding_values=np.int64(-1),
        pad_to_bucket_boundary=True,
        drop_remainder=True,
    ),
    "buckets_unpadded": lambda m: m.Dataset.range(9).bucket_by_sequence_length(
        lambda x: m.F.cast(x, "int32"), [4], [2, 3], no_padding=True
    ),
    "rebatch": lambda m: m.Dataset.range(10).batch(4).rebatch(3),
    "rebatch_known": lambda m: structured(m).batch(4, drop_remainder=True).rebatch(2),
    "rebatch_drop": lambda m: structured(m).batch(3).rebatch(5, drop_remainder=True),
    "rebatch_sizes": lambda m: m.Dataset.range(12).batch(5).rebatch([1, 3]),
    "ignore_errors": lambda m: (
        m.Dataset.from_tensor_slices([1, 0, 2]).map(lambda x: 6 // x).ignore_errors()
    ),
    "counter": lambda m: m.Dataset.counter(5, -2, "int32").take(4),
    "random": lambda m: m.Dataset.random(seed=4).take(5),
    "random_again": lambda m: m.Dataset.random(4, rerandomize_each_iteration=True).take(5),
    "sample": lambda m: m.Dataset.sample_from_datasets(letters(m), seed=7),
    "sample_weights": lambda m: m.Dataset.sample_from_datasets(
        letters(m), [0.5, 0.0, 2.5], 8, stop_on_empty_dataset=True
    ),
    "sample_array": lambda m: m.Dataset.sample_from_datasets(
        letters(m), np.array([0.5, 0.2, 0.3]), 8
    ),
    "sample_changing_weights": lambda m: m.Dataset.sample_from_datasets(
        letters(m), m.Dataset.from_tensor_slices(np.eye(3, dtype=np.float32)).repeat(), 9
    ),
    "sample_again": lambda m: m.Dataset.sample_from_datasets(
        letters(m), seed=7, rerandomize_each_iteration=True
    ),
    "choose": lambda m: m.Dataset.choose_from_datasets(
        letters(m), m.Dataset.from_tensor_slices(np.int64([2, 0, 2, 1, 2, 1]))
    ),
    "choose_until_all_end": lambda m: m.Dataset.choose_from_datasets(
        letters(m), m.Dataset.range(3).repeat(), stop_on_empty_dataset=False
    ),
    "choose_shapes": lambda m: m.Dataset.choose_from_datasets(
        [m.Dataset.range(3).batch(2), m.Dataset.range(6).batch(3)], m.Dataset.range(2).repeat(4)
    ),
    "random_map": lambda m: m.Dataset.range(4).map(lambda x: m.F.random_uniform([2], seed=4)),
    "resample": lambda m: classes(m).rejection_resample(
        lambda label, _: label, [0.2, 0.3, 0.5], [0.7, 0.2, 0.1], seed=7
    ),
    "resample_estimate": lambda m: classes(m).rejection_resample(
        lambda label, _: label, [0.2, 0.3, 0.5], seed=7
    ),
    "resample_away": lambda m: classes(m).rejection_resample(
        lambda label, _: label, [0.7, 0.3, 0.0], [0.7, 0.2, 0.1], seed=7
    ),
    "resample_nothing": lambda m: classes(m).rejection_resample(
        lambda label, _: label, [0.7, 0.2, 0.1], [0.7, 0.2, 0.1]
    ),
    "resample_one_part": lambda m: m.Dataset.range(40).rejection_resample(
        lambda x: m.F.cast(x % 4, "int32"), [0.4, 0.3, 0.2, 0.1], [0.25] * 4, seed=3
    ),
    "ragged": lambda m: (
        rows(m).ragged_batch(3).map(lambda r: (r.flat_values, *r.nested_row_splits))
    ),
    "ragged_axes": lambda m: (
        m.Dataset.range(4)
        .map(lambda n: m.F.fill(m.F.stack([n, 2, n + 1, 3]), n))
        .ragged_batch(2, drop_remainder=True)
        .map(lambda r: (r.flat_values, *r.nested_row_splits))
    ),
    "ragged_parts": lambda m: (
        rows(m)
        .map(lambda row: {"row": row, "pair": [1, 2]})
        .ragged_batch(2)
        .map(lambda e: (e["row"].flat_values, e["row"].nested_row_splits[0], e["pair"]))
    ),
    "sparse": lambda m: (
        rows(m).sparse_batch(3, [6]).map(lambda s: (s.indices, s.values, s.dense_shape))
    ),
    "generator": lambda m: m.Dataset.from_generator(yielded, "int32").repeat(2),
    "generator_structure": lambda m: m.Dataset.from_generator(
        yielded_parts,
        {"a": "float32", "b": ("string", "int64")},
        {"a": [None], "b": ([], [])},
        (3,),
    ).map(lambda e: (e["a"] * 2, e["b"])),
}

EAGER_ONLY = {"random_again", "sample_again"}
"""Programs that TensorFlow refuses for one-shot iterators: they use a resource."""


def iterate(dataset):
    return list(dataset.as_numpy_iterator())


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_without_a_session_give_equal_elements(name):
    expected, actual = PROGRAMS[name](theirs()), PROGRAMS[name](ours())
    check_spec(expected.element_spec, actual.element_spec)
    for _ in range(2):
        check_elements(iterate(expected), iterate(actual))


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in EAGER_ONLY])
def test_an_iterator_of_a_graph_gives_equal_elements(name):
    """The elements of the first pass, from TensorFlow's session and from ours."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = PROGRAMS[name](theirs())
        element = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
        expected = all_elements(session, element, tf.errors.OutOfRangeError)
    graph = graphmill.Graph()
    with graph.as_default():
        element = make_one_shot_iterator(PROGRAMS[name](ours())).get_next()
    with graphmill.Session(graph=graph) as session:
        actual = all_elements(session, element, graphmill.errors.OutOfRangeError)
    check_elements(expected, actual)


def all_elements(session, element, end):
    elements = []
    while True:
        try:
            elements.append(session.run(element))
        except end:
            return elements


@pytest.mark.parametrize("op_seed", [None, 0, 4])
@pytest.mark.parametrize("seed", [0, 11])
def test_shuffling_with_the_seed_of_a_graph_gives_equal_order(seed, op_seed):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(seed)
        dataset = tf.data.Dataset.range(20).shuffle(9, op_seed).shuffle(3)
        element = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
        expected = all_elements(session, element, tf.errors.OutOfRangeError)
    graph = graphmill.Graph()
    with graph.as_default():
        graphmill.set_random_seed(seed)
        dataset = Dataset.range(20).shuffle(9, op_seed).shuffle(3)
        element = make_one_shot_iterator(dataset).get_next()
    with graphmill.Session(graph=graph) as session:
        actual = all_elements(session, element, graphmill.errors.OutOfRangeError)
    check_elements(expected, actual)


def test_dataset_used_twice_shares_the_order_of_its_shuffle():
    for module in (theirs(), ours()):
        numbers = module.Dataset.range(9).shuffle(9, 1)
        both = module.Dataset.zip((numbers, numbers))
        first = [iterate(both), iterate(numbers), iterate(both)]
        if module.Dataset is tf.data.Dataset:
            expected = first
    for left, right in zip(expected, first, strict=True):
        check_elements(left, right)


@pytest.mark.parametrize("parallel", [None, 2])
def test_datasets_of_files_give_equal_elements(tmp_path, parallel):
    texts = [tmp_path / f"{name}.txt" for name in "cab"]
    for number, path in enumerate(texts):
        path.write_text("".join(f"{path.stem}{line}\n" for line in range(number + 2)))
    zipped = tmp_path / "z.gz"
    zipped.write_bytes(gzip.compress(b"one\r\ntwo\nthree"))
    records = [tmp_path / f"{name}.tfrecord" for name in "xy"]
    for path in records:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for number in range(4):
                writer.write(f"{path.stem}{number}".encode())
    names, record_names = [str(path) for path in texts], [str(path) for path in records]
    pattern = str(tmp_path / "*.txt")
    programs = [
        lambda m: m.TextLineDataset(names, num_parallel_reads=parallel),
        lambda m: m.TextLineDataset(str(zipped), "GZIP"),
        lambda m: m.TFRecordDataset(record_names, num_parallel_reads=parallel),
        lambda m: m.TFRecordDataset(m.Dataset.list_files(pattern[:-3] + "tfrecord", False)),
        lambda m: m.FixedLengthRecordDataset(names[:1], 3, header_bytes=0),
        lambda m: m.Dataset.list_files(pattern, shuffle=False),
        lambda m: m.Dataset.list_files(pattern, seed=5),
        lambda m: m.Dataset.list_files([pattern, str(tmp_path / "*.gz")], seed=5),
    ]
    for program in programs:
        expected, actual = program(theirs()), program(ours())
        for _ in range(2):
            check_elements(iterate(expected), iterate(actual))


@pytest.mark.parametrize("name", ["range", "batch", "filter", "repeat", "shard", "unbatch"])
def test_cardinality_is_tensorflows(name):
    expected, actual = PROGRAMS[name](theirs()), PROGRAMS[name](ours())
    assert actual.cardinality() == int(expected.cardinality())


RESULTS = {
    "sum": lambda m: m.Dataset.range(5).reduce(np.int64(0), lambda s, x: s + x),
    "structure": lambda m: structured(m).reduce(
        {"n": 0, "x": np.zeros(3, np.float32)},
        lambda s, e: {"n": s["n"] + 1, "x": s["x"] + e["x"]},
    ),
    "tuple": lambda m: m.Dataset.zip((m.Dataset.range(4), m.Dataset.range(4))).reduce(
        (np.int64(1), b""), lambda s, pair: (s[0] + pair[0] * pair[1], "last")
    ),
    "growing_state": lambda m: m.Dataset.range(4).reduce(
        np.zeros(0, np.int64), lambda s, x: m.F.concat([s, [x]], 0)
    ),
    "no_elements": lambda m: m.Dataset.range(0).reduce(np.int64(7), lambda s, x: s + x),
    "single_element": lambda m: structured(m).batch(8).get_single_element(),
    "nested": lambda m: (
        m.Dataset.range(6)
        .map(lambda n: m.Dataset.range(n).reduce(np.int64(0), lambda s, x: s + x))
        .batch(6)
        .get_single_element()
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_without_a_session_are_equal(name):
    expected = tf.nest.map_structure(lambda tensor: tensor.numpy(), RESULTS[name](theirs()))
    check_elements([expected], [RESULTS[name](ours())])


@pytest.mark.parametrize("name", RESULTS)
def test_results_in_a_graph_are_equal(name):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        expected = session.run(RESULTS[name](theirs()))
    graph = graphmill.Graph()
    with graph.as_default():
        result = RESULTS[name](ours())
    with graphmill.Session(graph=graph) as session:
        check_elements([expected], [session.run(result)])


WRONG = {
    "reduce_type": lambda m: m.Dataset.range(2).reduce(0, lambda s, x: x),
    "scan_no_pair": lambda m: m.Dataset.range(2).scan(0, lambda s, x: s),
    "scan_type": lambda m: m.Dataset.range(2).scan(0, lambda s, x: (x, x)),
    "unique_floats": lambda m: m.Dataset.from_tensor_slices([1.5]).unique(),
    "window_size_twice": lambda m: m.Dataset.range(2).group_by_window(
        lambda x: x, lambda k, g: g, 1, lambda k: k
    ),
    "no_window_size": lambda m: m.Dataset.range(2).group_by_window(lambda x: x, lambda k, g: g),
    "key_type": lambda m: m.Dataset.range(2).group_by_window(
        lambda x: m.F.cast(x, "int32"), lambda k, g: g, 2
    ),
    "group_is_no_dataset": lambda m: m.Dataset.range(2).group_by_window(
        lambda x: x, lambda k, g: k, 2
    ),
    "batch_sizes": lambda m: m.Dataset.range(2).bucket_by_sequence_length(lambda x: x, [3], [2]),
    "rebatch_scalars": lambda m: m.Dataset.range(2).rebatch(2),
    "sample_nothing": lambda m: m.Dataset.sample_from_datasets([]),
    "sample_weights": lambda m: m.Dataset.sample_from_datasets(letters(m), [0.5, 0.5]),
    "sample_whole_weights": lambda m: m.Dataset.sample_from_datasets(letters(m), [1, 1, 2]),
    "sample_types": lambda m: m.Dataset.sample_from_datasets([*letters(m), m.Dataset.range(2)]),
    "choose_nothing": lambda m: m.Dataset.choose_from_datasets([], m.Dataset.range(2)),
    "choose_by_a_list": lambda m: m.Dataset.choose_from_datasets(letters(m), [0, 1]),
    "choose_by_int32": lambda m: m.Dataset.choose_from_datasets(
        letters(m), m.Dataset.range(2, output_type="int32")
    ),
    "single_of_none": lambda m: m.Dataset.range(0).get_single_element(),
    "single_of_two": lambda m: m.Dataset.range(2).get_single_element(),
    "choice_out_of_range": lambda m: list(
        m.Dataset.choose_from_datasets(letters(m), m.Dataset.range(5))
    ),
    "window_size_of_zero": lambda m: list(
        m.Dataset.range(2).group_by_window(lambda x: x, lambda k, g: g, 0)
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_uses_are_refused_by_both(name):
    with pytest.raises((TypeError, ValueError, tf.errors.InvalidArgumentError)):
        WRONG[name](theirs())
    with pytest.raises(graphmill.errors.InvalidArgumentError):
        WRONG[name](ours())
