"""Scalar functions of XLA operations: supported and refused ones."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill.testing.case import parse_cases
from graphmill.testing.runners.backends import runner

ADD = "f(a: float32, b: float32) -> (float32): y = AddV2(a, b); return y"
DRAW = (
    "f(a: float32, b: float32) -> (float32): s = Const(value='int32[0]', dtype=int32); "
    "r = RandomUniform(s, dtype=float32); y = AddV2(a, r); return y"
)
NESTED = "g(a: float32, b: float32) -> (float32): y = PartitionedCall([a, b], Tout=[float32], f=f)"


def reduced(function: str, dims: str, feed: str = "float32: [[1, 2], [3, 4]]", reducer: str = "f"):
    functions = ADD if function.startswith("g") else ""
    text = f"""
[[XlaReduce]]
feed = {{ x = "{feed}", i = "float32: 0" }}
functions = [{", ".join(f'"{one}"' for one in (functions, function) if one)}]
nodes = ["y = OP(x, i, dimensions_to_reduce={dims}, reducer={reducer})"]
run = ["y"]
"""
    (case,) = parse_cases(text, "test")
    return runner("session", graphmill.default_host()).run(case)


def test_a_function_may_call_another():
    (found,) = reduced(f"{NESTED}; return y", "[0]", reducer="g").outputs
    np.testing.assert_array_equal(found, [4, 6])


@pytest.mark.parametrize("dims", ["[2]", "[0, 0]", "[-1]"])
def test_dimensions_are_checked(dims):
    assert reduced(ADD, dims).error == "InvalidArgument"


def test_a_function_that_draws_numbers_is_refused():
    answer = reduced(DRAW, "[0]")
    assert answer.error == errors.UnimplementedError.__name__.removesuffix("Error")
    assert "RandomUniform" in answer.message


def test_many_elements_are_combined_by_pairs():
    (found,) = reduced(ADD, "[0]", "float32[100000] fill 0.1").outputs
    np.testing.assert_allclose(found, 10000, 1e-6)
