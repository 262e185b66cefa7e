"""A signature accepts values without the last dimension of an input if it is 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors
from graphmill.proto import SignatureDef
from graphmill.saved.signature import Signature

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class EchoSession:
    """A session whose steps return what they are fed."""

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None
    ) -> Callable[..., Any]:
        assert feed_list is not None
        assert len(feed_list) == len(fetches) == 1
        return lambda *values: list(values)


def echo(dtype: str, *sizes: int) -> Signature:
    """Return a signature from `x` to `y`, the same tensor."""
    definition = SignatureDef()
    for info in (definition.inputs["x"], definition.outputs["y"]):
        info.name = "x:0"
        info.dtype = dtype  # type: ignore[assignment]
        for size in sizes:
            info.tensor_shape.dim.add(size=size)
    return Signature("echo", definition, EchoSession())


def test_texts_are_accepted_for_a_column() -> None:
    signature = echo("DT_STRING", -1, 1)
    expected = [[b"good fun"], [b"awful film"]]
    assert signature(x=["good fun", "awful film"])["y"].tolist() == expected
    assert signature(["good fun", "awful film"])["y"].tolist() == expected
    assert signature(x=[["good fun"], ["awful film"]])["y"].tolist() == expected


def test_numbers_are_accepted_for_a_column() -> None:
    signature = echo("DT_FLOAT", -1, 1)
    column = signature(x=np.ones(3, np.float32))["y"]
    assert (column.shape, column.dtype) == ((3, 1), np.float32)


@pytest.mark.parametrize(
    ("sizes", "value"),
    [((-1, 1), 1.0), ((-1, 1), [[[1.0]]]), ((-1, 2), [1.0, 2.0]), ((1,), 1.0), ((2, 1), [1.0])],
)
def test_other_shapes_are_refused(sizes: tuple[int, ...], value: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="Cannot feed value of shape"):
        echo("DT_FLOAT", *sizes)(x=value)


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="float32"):
        echo("DT_FLOAT", -1, 1)(x=["text"])
