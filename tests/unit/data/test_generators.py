"""`Dataset.from_generator`: the values that a Python generator yields."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill.data import Dataset, TensorSpec
from graphmill.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIGNATURE = ({"a": TensorSpec([], "int32"), "b": TensorSpec([None])}, TensorSpec([], "string"))


def rows(count: Any = 3) -> Iterator[Any]:
    for number in range(int(count)):
        yield {"b": [float(number)] * number, "a": number}, f"row {number}"


def test_elements_have_the_structure_and_types_of_the_signature() -> None:
    dataset = Dataset.from_generator(rows, output_signature=SIGNATURE)
    assert dataset.element_spec == SIGNATURE
    features, text = list(dataset)[2]
    assert features["a"] == 2
    assert features["a"].dtype == np.int32
    assert features["b"].tolist() == [2.0, 2.0]
    assert features["b"].dtype == np.float32
    assert text == b"row 2"


def test_each_pass_begins_anew_with_the_arguments() -> None:
    dataset = Dataset.from_generator(rows, output_signature=SIGNATURE, args=(2,))
    numbers = dataset.repeat(2).map(lambda features, _: features["a"] + 1)
    assert list(numbers) == [1, 2, 1, 2]
    assert list(numbers) == [1, 2, 1, 2]


def test_types_and_shapes_without_a_signature() -> None:
    def pairs() -> Iterator[Any]:
        yield [1, [2.0, 3.0]]

    dataset = Dataset.from_generator(pairs, ("int64", "float32"), ([], [None]))
    assert dataset.element_spec == (TensorSpec([], "int64"), TensorSpec([None]))
    assert [(int(one), two.tolist()) for one, two in dataset] == [(1, [2.0, 3.0])]
    assert Dataset.from_generator(pairs, ("int64", "float32")).element_spec[0].shape.rank is None


def test_generator_within_flat_map_is_kept() -> None:
    def repeated(number: Any) -> Iterator[Any]:
        for _ in range(int(number)):
            yield number

    nested = Dataset.range(4).flat_map(
        lambda number: Dataset.from_generator(repeated, "int64", args=(number,))
    )
    gc.collect()
    assert list(nested) == [1, 2, 2, 3, 3, 3]


def test_generator_is_kept_by_an_iterator_and_by_a_graph() -> None:
    def made() -> Dataset:
        factor = 3

        def numbers() -> Iterator[int]:
            yield factor
            yield factor * 2

        return Dataset.from_generator(numbers, "int32")

    elements = iter(made())
    graph = graphmill.Graph()
    with graph.as_default():
        element = made().make_one_shot_iterator().get_next()
    gc.collect()
    assert list(elements) == [3, 6]
    with Session(graph=graph) as session:
        assert [session.run(element), session.run(element)] == [3, 6]
        with pytest.raises(errors.OutOfRangeError):
            session.run(element)


def test_generator_of_a_pass_that_is_given_up_is_closed() -> None:
    closed: list[str] = []

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.append("closed")

    assert list(Dataset.from_generator(endless, "int32").take(2)) == [1, 1]
    gc.collect()
    assert closed == ["closed"]


def test_error_of_the_generator_ends_the_pass() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise RuntimeError("no more paper")

    elements = iter(Dataset.from_generator(failing, "int32"))
    assert next(elements) == 1
    with pytest.raises(errors.UnknownError, match=r"failing.*RuntimeError: no more paper"):
        next(elements)
    assert next(elements, "end") == "end"


@pytest.mark.parametrize(
    ("value", "signature", "message"),
    [
        (1.5, TensorSpec([], "int32"), "a value that is not int32"),
        (2**40, TensorSpec([], "int32"), "does not fit into"),
        ([1, 2], TensorSpec([3], "int32"), r"of shape \[2\], expected \(3,\)"),
        ((1,), (TensorSpec([]), TensorSpec([])), "a tuple of 1 parts, expected a tuple of 2"),
        ((1, "x"), (TensorSpec([]), TensorSpec([])), r"a value at \[1\] that is not float32"),
        ({"c": 1}, {"a": TensorSpec([])}, r"keys \['c'\], expected a dict with the keys \['a'\]"),
        (1, {"a": TensorSpec([])}, "a value of type int, expected a dict"),
    ],
)
def test_element_that_does_not_fit(value: Any, signature: Any, message: str) -> None:
    dataset = Dataset.from_generator(lambda: iter([value]), output_signature=signature)
    with pytest.raises(errors.InvalidArgumentError, match=message):
        list(dataset)


def test_invalid_generator_arguments_are_refused() -> None:
    with pytest.raises(errors.InvalidValueError, match="must be a function that returns"):
        Dataset.from_generator([1, 2], "int32")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidValueError, match="needs `output_signature`"):
        Dataset.from_generator(rows)
    with pytest.raises(errors.InvalidValueError, match="not both"):
        Dataset.from_generator(rows, "int32", output_signature=SIGNATURE)
    with pytest.raises(errors.InvalidValueError, match=r"output_signature\[1\] must be"):
        Dataset.from_generator(rows, output_signature=(TensorSpec([]), "int32"))
    with pytest.raises(errors.InvalidValueError, match="2 output_types and 1 output_shapes"):
        Dataset.from_generator(rows, ("int32", "int32"), [None])


def test_policies_refuse_generators(tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        dataset = Dataset.from_generator(lambda: iter([1]), "int32")
        element = dataset.make_one_shot_iterator().get_next()
    with (
        Session(graph=graph, config={"graphmill": {"forbid_effects": ["python"]}}) as session,
        pytest.raises(errors.PermissionDeniedError, match="effect 'python'"),
    ):
        session.run(element)
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    with (
        Session(graph=path) as session,
        pytest.raises(errors.PermissionDeniedError, match="the model runs under rules"),
    ):
        session.run(element.name)


def test_generator_of_another_process() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        dataset = Dataset.from_generator(rows, output_signature=SIGNATURE)
        element = dataset.make_one_shot_iterator().get_next()[1]
    message, name = graph.as_graph_def(), element.name
    del dataset, element, graph
    gc.collect()
    with (
        Session(graph=graphmill.Graph.from_graph_def(message)) as session,
        pytest.raises(errors.NotFoundError, match="'rows' exists only in the process"),
    ):
        session.run(name)
