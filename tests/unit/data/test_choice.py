"""Datasets of random numbers and counts, and choices among datasets, without TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill import functions as F
from graphmill.data import Dataset, TensorSpec, make_initializable_iterator


def plain(dataset: Dataset) -> list[Any]:
    return [element.item() for element in dataset]


def numbers() -> list[Dataset]:
    return [Dataset.range(start, start + 4) for start in (0, 10, 20)]


def test_counter_has_no_end() -> None:
    counter = Dataset.counter(5, -2, "int32")
    assert counter.element_spec == TensorSpec([], "int32")
    assert counter.cardinality() == graphmill.data.INFINITE_CARDINALITY
    assert plain(counter.take(3)) == [5, 3, 1]
    with pytest.raises(errors.InvalidArgumentError, match="counter: step"):
        Dataset.counter(0, 0.5)


def test_random_numbers_of_a_seed_are_tensorflows() -> None:
    """The numbers are TensorFlow's."""
    dataset = Dataset.random(seed=4).take(3)
    assert plain(dataset) == [3128586565, 2023892699, 452966358]
    assert plain(dataset) == [3128586565, 2023892699, 452966358]


def test_random_numbers_of_each_pass() -> None:
    """The numbers are TensorFlow's."""
    dataset = Dataset.random(seed=4, rerandomize_each_iteration=True).take(3)
    assert plain(dataset) == [1905554911, 4215726141, 1283758208]
    assert plain(dataset) == [1683472663, 2279948892, 2709632186]


def test_samples_of_a_seed_are_tensorflows() -> None:
    """The order is TensorFlow's."""
    dataset = Dataset.sample_from_datasets([Dataset.range(3), Dataset.range(4)], [0.5, 0.5], 1)
    assert plain(dataset) == [0, 0, 1, 2, 1, 2, 3]


def test_dataset_without_weight_is_never_chosen() -> None:
    dataset = Dataset.sample_from_datasets(numbers(), [0.5, 0.0, 0.5], seed=2)
    assert sorted(plain(dataset)) == [0, 1, 2, 3, 20, 21, 22, 23]
    assert plain(Dataset.sample_from_datasets(numbers(), [0.0, 0.0, 0.0])) == []


def test_weights_may_be_a_dataset() -> None:
    turns = Dataset.from_tensor_slices(np.eye(3, dtype=np.float32)).repeat()
    dataset = Dataset.sample_from_datasets(numbers(), turns)
    assert plain(dataset)[:6] == [0, 10, 20, 1, 11, 21]


def test_weights_may_be_fed() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        weights = graph.placeholder("float32", [3])
        dataset = Dataset.sample_from_datasets(numbers(), weights, stop_on_empty_dataset=True)
        iterator = make_initializable_iterator(dataset)
        element = iterator.get_next()
    with graphmill.Session(graph=graph) as session:
        session.run(iterator.initializer, {weights: [0, 1, 0]})
        assert [session.run(element) for _ in range(4)] == [10, 11, 12, 13]
        with pytest.raises(errors.OutOfRangeError):
            session.run(element)


def test_choices_take_elements_by_index() -> None:
    choices = Dataset.from_tensor_slices(np.array([2, 0, 2, 1], np.int64))
    assert plain(Dataset.choose_from_datasets(numbers(), choices)) == [20, 0, 21, 10]


def test_choice_ends_with_a_dataset_or_with_all() -> None:
    pair = [Dataset.range(1), Dataset.range(10, 13)]
    turns = Dataset.range(2).repeat()
    assert plain(Dataset.choose_from_datasets(pair, turns)) == [0, 10]
    every = Dataset.choose_from_datasets(pair, turns, stop_on_empty_dataset=False)
    assert plain(every) == [0, 10, 11, 12]


def test_shapes_of_a_choice_are_the_common_ones() -> None:
    batches = [Dataset.range(4).batch(size, drop_remainder=True) for size in (1, 2)]
    dataset = Dataset.choose_from_datasets(batches, Dataset.range(2))
    assert dataset.element_spec == TensorSpec([None], "int64")


def test_wrong_arguments_are_refused() -> None:
    sample, choose = Dataset.sample_from_datasets, Dataset.choose_from_datasets
    with pytest.raises(errors.InvalidArgumentError, match="holds no dataset"):
        sample([])
    with pytest.raises(errors.InvalidValueError, match="weights of shape \\[2\\] for 3 datasets"):
        sample(numbers(), [0.5, 0.5])
    with pytest.raises(errors.InvalidValueError, match="weights must be float32 or float64"):
        sample(numbers(), [1, 1, 1])
    with pytest.raises(errors.InvalidValueError, match="dataset 1 is int32, but the element of"):
        sample([Dataset.range(2), Dataset.range(2, output_type="int32")])
    with pytest.raises(errors.InvalidValueError, match="must be a Dataset, got list"):
        choose(numbers(), [0, 1])  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidValueError, match="scalars, int64"):
        choose(numbers(), Dataset.range(3).map(lambda x: F.cast(x, "int32")))
    with pytest.raises(errors.InvalidArgumentError, match="index 5 is not in"):
        list(choose(numbers(), Dataset.range(5, 6)))
