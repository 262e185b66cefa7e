"""`Dataset` without TensorFlow: elements, specs, iterators of graphs, and bad arguments."""

from __future__ import annotations

import gc
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill import functions as F
from graphmill.data import (
    Dataset,
    DatasetSpec,
    Iterator,
    TensorSpec,
    TextLineDataset,
    TFRecordDataset,
    make_initializable_iterator,
    make_one_shot_iterator,
)
from graphmill.testing.timeouts import no_leaked_threads

Point = namedtuple("Point", "x y")  # noqa: PYI024 - as programs write it


def ints(dataset: Dataset) -> list[int]:
    return [int(element) for element in dataset]


def test_elements_have_the_structure_of_the_tensors() -> None:
    dataset = Dataset.from_tensor_slices(
        {"b": Point([1, 2], np.float64([0.5, 1.5])), "a": (["u", "v"],)}
    )
    assert dataset.element_spec == {
        "b": Point(TensorSpec([], "int32"), TensorSpec([], "float64")),
        "a": (TensorSpec([], "string"),),
    }
    first, second = dataset
    assert first == {"b": Point(1, 0.5), "a": (b"u",)}
    assert isinstance(second["b"], Point)


def test_each_loop_starts_at_the_first_element() -> None:
    dataset = Dataset.range(3)
    one, other = iter(dataset), iter(dataset)
    assert [int(next(one)), int(next(one)), int(next(other))] == [0, 1, 0]
    assert ints(dataset) == [0, 1, 2]


def test_array_may_change_after_the_dataset_is_made() -> None:
    rows = np.arange(3)
    dataset = Dataset.from_tensor_slices(rows)
    rows[:] = 9
    assert ints(dataset) == [0, 1, 2]


def test_equal_functions_are_one_function_of_the_graph() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        one = Dataset.range(3).map(lambda x: x + 1).map(lambda x: x + 1)
        make_initializable_iterator(one)
    assert len(graph.library) == 1


def test_cache_is_filled_by_the_first_loop() -> None:
    dataset = Dataset.range(3).map(lambda x: F.random_uniform([])).cache()
    assert list(dataset) == list(dataset)


def test_windows_are_datasets_that_outlive_the_loop() -> None:
    windows = list(Dataset.range(5).window(2))
    gc.collect()
    assert [ints(window) for window in windows] == [[0, 1], [2, 3], [4]]
    assert windows[0].element_spec == TensorSpec([], "int64")
    assert Dataset.range(5).window(2).element_spec == DatasetSpec(TensorSpec([], "int64"))


def test_loop_that_ends_early_leaves_no_threads() -> None:
    with no_leaked_threads():
        dataset = Dataset.range(1000).map(lambda x: x, num_parallel_calls=2).prefetch(4)
        loop = iter(dataset)
        assert int(next(loop)) == 0
        del loop, dataset
        gc.collect()


def test_the_length_of_a_dataset_is_its_cardinality() -> None:
    assert len(Dataset.range(7).batch(3)) == 3
    assert Dataset.range(3).repeat().cardinality() == graphmill.data.INFINITE_CARDINALITY
    with pytest.raises(TypeError, match="is infinite"):
        len(Dataset.range(3).repeat())
    with pytest.raises(TypeError, match="length is unknown"):
        len(Dataset.range(3).filter(lambda x: x > 1))
    assert bool(Dataset.range(0))


def test_error_of_an_element_is_raised_and_the_next_one_is_read() -> None:
    dataset = Dataset.from_tensor_slices([1, 0, 2]).map(lambda x: ops.math.floor_div(6, x))
    loop = iter(dataset)
    assert int(next(loop)) == 6
    with pytest.raises(errors.InvalidArgumentError, match=r"[Dd]ivision by zero"):
        next(loop)
    assert int(next(loop)) == 3


def test_functions_may_have_control_flow_and_effects() -> None:
    def halve(x: Any) -> Any:
        with F.control_dependencies([graphmill.Assert(x < 9, [x])]):
            return graphmill.cond(x > 1, lambda: x // 2, lambda: ops.array.identity(x))

    assert ints(Dataset.range(6).map(halve)) == [0, 1, 1, 1, 2, 2]


def test_assertion_without_a_reader_runs() -> None:
    def checked(x: Any) -> Any:
        graphmill.Assert(x < 2, ["too large"])
        return x

    with pytest.raises(errors.InvalidArgumentError, match="too large"):
        list(Dataset.range(3).map(checked))


def run_all(session: graphmill.Session, fetch: Any) -> list[Any]:
    values = []
    while True:
        try:
            values.append(session.run(fetch))
        except errors.OutOfRangeError:
            return values


def test_initializable_iterator_reads_fed_tensors() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        count = graph.placeholder("int64", [])
        rows = graph.placeholder("float32", [None, 2])
        dataset = Dataset.zip((Dataset.range(count), Dataset.from_tensor_slices(rows)))
        iterator = make_initializable_iterator(dataset)
        number, row = iterator.get_next()
    assert row.shape.as_list() == [2]
    with graphmill.Session(graph=graph) as session:
        for size in (1, 2):
            session.run(iterator.initializer, {count: size, rows: [[1, 2], [3, 4], [5, 6]]})
            assert [int(v) for v in run_all(session, number)] == list(range(size))


def test_one_iterator_reads_two_datasets_in_turn() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        iterator = Iterator.from_structure(("int64", "int64"), ([], []))
        element = iterator.get_next()
        starts = [
            iterator.make_initializer(Dataset.zip((Dataset.range(n), Dataset.range(n))))
            for n in (1, 3)
        ]
        with pytest.raises(errors.InvalidArgumentError, match="must have the same structure"):
            iterator.make_initializer(Dataset.range(3))
    with pytest.raises(errors.FailedPreconditionError, match="make_initializer"):
        _ = iterator.initializer
    assert iterator.output_types == (graphmill.int64, graphmill.int64)
    with graphmill.Session(graph=graph) as session:
        for start, size in zip(starts, (1, 3), strict=True):
            session.run(start)
            assert len(run_all(session, element)) == size


def test_one_shot_iterator_refuses_tensors_of_the_graph() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        dataset = Dataset.range(graph.placeholder("int64", []))
        with pytest.raises(errors.InvalidArgumentError, match="make_initializable_iterator"):
            make_one_shot_iterator(dataset)
        with pytest.raises(errors.FailedPreconditionError, match="make_initializable_iterator"):
            list(dataset)


def test_iterator_of_a_graph_survives_export() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        element = make_one_shot_iterator(Dataset.range(4).map(lambda x: x * x)).get_next()
        ops.array.identity(element, name="y")
    again = graphmill.Graph.from_graph_def(graph.as_graph_def())
    with graphmill.Session(graph=again) as session:
        assert [int(v) for v in run_all(session, "y:0")] == [0, 1, 4, 9]


OUTER = graphmill.Graph()
with OUTER.as_default():
    OUTER_TENSOR = OUTER.constant(np.int64(1), name="outer")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dataset.from_tensor_slices(3), "a scalar has no slices"),
        (lambda: Dataset.from_tensor_slices(([1], [1, 2])), "tensors differ: 1, 2"),
        (lambda: Dataset.from_tensor_slices(()), "at least one tensor"),
        (lambda: Dataset.from_tensors({"a": object()}), r"tensors\['a'\]"),
        (lambda: Dataset.range(), "one to three numbers"),
        (lambda: Dataset.range(1.5), "range: stop"),
        (lambda: Dataset.zip((Dataset.range(1), 3)), r"zip\[1\]: expected a Dataset, got int"),
        (lambda: Dataset.zip(), "either datasets or"),
        (lambda: Dataset.range(3).map(lambda x: None), "it is None"),
        (lambda: Dataset.range(3).map(lambda x: x + OUTER_TENSOR), "no tensors or variables"),
        (lambda: Dataset.range(3).map(lambda x: OUTER_TENSOR), "another graph"),
        (lambda: Dataset.range(3).filter(lambda x: x), "must return a scalar bool"),
        (lambda: Dataset.range(3).flat_map(lambda x: x), "must return a Dataset"),
        (lambda: Dataset.range(3).interleave(lambda x: x), "must return a Dataset"),
        (
            lambda: Dataset.range(3).interleave(lambda x: Dataset.range(x), 0),
            "cycle_length must be at least 1",
        ),
        (lambda: Dataset.range(3).map(lambda x: x, 0), "num_parallel_calls must be at least 1"),
        (lambda: Dataset.range(3).shuffle(0), "buffer_size must be greater than zero"),
        (lambda: Dataset.range(3).shuffle("a"), "shuffle: buffer_size"),
        (lambda: Dataset.range(3).batch(0), "batch_size must be greater than zero"),
        (lambda: Dataset.range(3).batch([2]), "must be a scalar"),
        (lambda: Dataset.range(3).unbatch(), "an element is a scalar"),
        (lambda: Dataset.range(3).window(2).batch(2), "flatten them"),
        (lambda: Dataset.range(3).window(0), "size must be greater than zero"),
        (lambda: Dataset.range(3).shard(2, 2), "index must be from 0 to 1"),
        (lambda: Dataset.range(3).shard(0, 0), "num_shards must be >= 1"),
        (lambda: Dataset.range(3).concatenate(Dataset.zip((Dataset.range(3),))), "structure"),
        (lambda: Dataset.range(3).concatenate(Dataset.from_tensors("a")), "is string, but"),
        (lambda: Dataset.range(3).concatenate([1]), "expected a Dataset, got list"),
        (lambda: Dataset.range(3).padded_batch(2, [3]), "does not fit into the padded shape"),
        (lambda: Dataset.range(3).padded_batch(2, padding_values="a"), "padding_values"),
        (lambda: Dataset.range(3).padded_batch(2, ([], [])), "2 padded_shapes for elements of 1"),
        (lambda: Dataset.range(3).apply(lambda d: 3), "must return a Dataset"),
        (lambda: TFRecordDataset([1]), "must be strings"),
        (lambda: TFRecordDataset(Dataset.range(3)), "must be strings"),
        (lambda: TextLineDataset("a", "BZ2"), "compression_type must be"),
    ],
)  # fmt: skip
def test_dataset_refuses_bad_arguments(make: Any, message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        make()


def test_dataset_of_a_loop_is_in_no_graph() -> None:
    window = next(iter(Dataset.range(3).window(2)))
    with (
        graphmill.Graph().as_default(),
        pytest.raises(errors.InvalidArgumentError, match="element of a loop"),
    ):
        make_one_shot_iterator(window)


def test_files_that_do_not_exist(tmp_path: Any) -> None:
    with pytest.raises(errors.NotFoundError, match=r"missing\.txt"):
        list(TextLineDataset(tmp_path / "missing.txt"))
    with pytest.raises(errors.InvalidArgumentError, match="No files matched pattern"):
        list(Dataset.list_files(str(tmp_path / "*.txt")))


def test_lines_of_files_are_read_in_order(tmp_path: Any) -> None:
    for name in "ba":
        (tmp_path / f"{name}.txt").write_text(f"{name}1\n{name}2\n")
    files = Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False)
    assert list(TextLineDataset(files)) == [b"a1", b"a2", b"b1", b"b2"]
    assert list(TextLineDataset([tmp_path / "b.txt"])) == [b"b1", b"b2"]


def test_one_shot_iterator_counts_as_an_op_without_a_seed() -> None:
    """The ops after the iterator get the seeds that TensorFlow gives them."""
    with graphmill.Graph().as_default():
        graphmill.set_random_seed(7)
        make_one_shot_iterator(Dataset.range(3))
        make_initializable_iterator(Dataset.range(3))
        assert graphmill.get_seed(None) == (7, 1)


def test_name_of_a_step_is_in_the_metadata_of_its_node() -> None:
    with graphmill.Graph().as_default() as graph:
        rows = Dataset.range(3, name="numbers").batch(2, name="pairs").repeat()
        rows.make_initializable_iterator()
    found = {node.op: node.attrs["metadata"] for node in graph if "metadata" in node.attrs}
    assert found == {
        "RangeDataset": b"\n\x07numbers",
        "BatchDatasetV2": b"\n\x05pairs",
        "RepeatDataset": b"",
    }
    with pytest.raises(ValueError, match="'a b' of a dataset is not a valid identifier"):
        Dataset.range(3, name="a b")
