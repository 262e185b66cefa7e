"""Constants with hostile shapes and small element types give values or typed errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, proto

if TYPE_CHECKING:
    from collections.abc import Iterable

JIT = pytest.mark.parametrize("jit", ["off", "eager"])
INT4, UINT4 = 29, 30


def constant(dims: Iterable[int], dtype: int = 1, **fields: Any) -> Any:
    graph = proto.GraphDef()
    node = graph.node.add(name="c", op="Const")
    node.attr["dtype"].type = dtype
    tensor = node.attr["value"].tensor
    tensor.MergeFrom(proto.TensorProto(dtype=dtype, **fields))
    for size in dims:
        tensor.tensor_shape.dim.add(size=size)
    graph.node.add(name="y", op="Identity", input=["c"]).attr["T"].type = dtype
    if dtype == 1:
        graph.node.add(name="neg", op="Neg", input=["c"]).attr["T"].type = dtype
    return graph


def run(graph: Any, fetch: str, jit: str) -> Any:
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": jit}}) as session:
        return session.run(fetch)


@JIT
@pytest.mark.parametrize("rank", [65, 300, 1_000_000])
@pytest.mark.parametrize("size", [0, 1])
def test_constant_of_too_many_dimensions_is_refused(rank: int, size: int, jit: str) -> None:
    graph = constant([size] * rank, float_val=[1.0])
    with pytest.raises(errors.InvalidArgumentError, match=f"{rank} dimensions") as error:
        run(graph, "neg:0", jit)
    assert error.value.node == "c"


@JIT
def test_dimensions_that_multiply_to_zero_allocate_nothing(jit: str) -> None:
    assert run(constant([2**40, 0]), "neg:0", jit).shape == (2**40, 0)
    with pytest.raises(errors.InvalidArgumentError, match="too many elements"):
        run(constant([2**62, 2**62, 0]), "neg:0", jit)


@JIT
@pytest.mark.parametrize(("dtype", "expected"), [(INT4, [1, 7, -8]), (UINT4, [1, 7, 8])])
def test_four_bit_constants_have_one_byte_for_each_element(
    dtype: int, expected: list[int], jit: str
) -> None:
    for fields in ({"int_val": [1, 7, 8]}, {"tensor_content": b"\x01\x07\x08"}):
        found = run(constant([3], dtype, **fields), "y:0", jit)
        assert np.array(found).astype(int).tolist() == expected


@JIT
def test_packed_four_bit_constant_is_refused(jit: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="needs 3 bytes of tensor_content"):
        run(constant([3], INT4, tensor_content=b"\x01\x07"), "y:0", jit)
