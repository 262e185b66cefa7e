"""`Options` and `Dataset.with_options`."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import errors
from graphmill.data import Dataset, Options
from graphmill.ops import dataset as ops
from graphmill.session.session import Session


def configured() -> Dataset:
    first, second = Options(), Options()
    first.deterministic = False
    first.threading.private_threadpool_size = 4
    second.deterministic = True
    second.autotune.ram_budget = -1
    second.dataset_name = "rows"
    return Dataset.range(3).with_options(first).map(lambda x: x + 1).with_options(second)


def test_later_options_take_precedence() -> None:
    dataset = configured()
    expected = Options()
    expected.deterministic = True
    expected.threading.private_threadpool_size = 4
    expected.autotune.ram_budget = -1
    expected.dataset_name = "rows"
    assert dataset.options() == expected
    assert Dataset.range(3).options() == Options()
    assert list(dataset) == [1, 2, 3]


def test_graph_holds_the_message_of_tensorflow() -> None:
    assert configured().options().serialized() == (
        b"\x08\x01*\x02\x10\x04:\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01R\x04rows"
    )
    graph = graphmill.Graph()
    with graph.as_default():
        options = ops.get_options(configured().add_to(graph))
    with Session(graph=graph) as session:
        assert b"rows" in session.run(options)


def test_options_are_copied() -> None:
    options = Options()
    options.threading.max_intra_op_parallelism = 1
    dataset = Dataset.range(3).with_options(options)
    options.threading.max_intra_op_parallelism = 2
    assert dataset.options().threading.max_intra_op_parallelism == 1
    assert repr(dataset.options()) == (
        "Options(threading=ThreadingOptions(max_intra_op_parallelism=1))"
    )


def test_unknown_and_mistyped_options_are_refused() -> None:
    options = Options()
    with pytest.raises(AttributeError, match="did you mean 'deterministic'"):
        options.determinstic = True
    with pytest.raises(errors.InvalidValueError, match="deterministic must be bool, got int"):
        options.deterministic = 1
    with pytest.raises(errors.InvalidValueError, match=r"expected graphmill\.data\.Options"):
        Dataset.range(3).with_options(3)  # type: ignore[arg-type]
