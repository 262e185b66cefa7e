"""Shapes, constants and identities: copies, views, folding during tracing."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill import errors

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def test_constant_is_returned_without_a_copy(bind_kernel):
    compute = bind_kernel("Const", dtype="float32", value="float32[2,3]").compute
    assert compute() is compute()


def test_a_scalar_constant_is_a_numpy_scalar(call):
    assert isinstance(call("Const", dtype="float32", value="float32: 2"), np.float32)


def test_a_string_constant_stays_an_array(call):
    value = call("Const", dtype="string", value="string: 'a'")
    assert isinstance(value, np.ndarray)
    assert value[()] == b"a"


@pytest.mark.parametrize("op", ["Identity", "StopGradient", "Snapshot", "PreventGradient"])
def test_identities_return_their_input_itself(call, op):
    assert call(op, X) is X


@pytest.mark.parametrize(
    ("shape", "text"),
    [([2, -1], "dtype float and shape [2,?]"), ("unknown", "dtype float"), ([], "dtype float")],
)
def test_unfed_placeholder_error_has_dtype_and_shape(bind_kernel, shape, text):
    kernel = bind_kernel("Placeholder", dtype="float32", shape=shape)

    class Context:
        node_name = "x"

    with pytest.raises(errors.InvalidArgumentError) as raised:
        kernel.compute(Context())
    assert raised.value.message.endswith(text)
    assert "'x'" in raised.value.message


@pytest.mark.parametrize(
    ("op", "argument", "attrs"),
    [
        ("Reshape", ints(3, -1), {}),
        ("Transpose", ints(1, 0), {}),
        ("ExpandDims", np.int32(1), {}),
        ("BroadcastTo", ints(4, 2, 3), {}),
        ("Squeeze", None, {}),
        ("EnsureShape", None, {"shape": [-1, 3]}),
    ],
)
def test_a_change_of_shape_is_a_view(call, op, argument, attrs):
    result = call(op, X, *([] if argument is None else [argument]), **attrs)
    assert np.shares_memory(result, X)


def test_a_reshape_that_does_not_fit_names_both_counts(call):
    with pytest.raises(errors.InvalidArgumentError, match=r"6 values.*\[4, 2\] has 8"):
        call("Reshape", X, ints(4, 2))


def test_a_reshape_takes_one_unknown_size_only(call):
    with pytest.raises(errors.InvalidArgumentError, match="may be -1"):
        call("Reshape", X, ints(-1, -1))


def test_a_squeeze_of_a_larger_dimension_names_it(call):
    with pytest.raises(errors.InvalidArgumentError, match=r"dim\[1\].*got 3"):
        call("Squeeze", X, squeeze_dims=[1])


@pytest.mark.parametrize("op", ["Shape", "Size", "Rank"])
def test_shapes_of_handles_are_those_of_scalars(bind_kernel, op):
    from graphmill.runtime.resources.variables import ResourceHandle

    handle = ResourceHandle("/cpu:0", "c", "v", "Variable")
    attrs = {"T": "resource"}
    kernel = bind_kernel(op, X, **attrs)
    assert np.size(kernel.compute(handle)) == (0 if op == "Shape" else 1)


def test_zeros_of_strings_are_empty(call):
    x = np.array([b"a", b"b"], object)
    assert call("ZerosLike", x).tolist() == [b"", b""]


def test_tile_gradient_adds_the_tiles(call):
    dy = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(call("TileGrad", dy, ints(2)), dy[:4] + dy[4:])


def test_handles_are_packed_and_unpacked(bind_kernel):
    from graphmill.runtime.resources.variables import ResourceHandle

    handles = [ResourceHandle("/cpu:0", "c", name, "Variable") for name in "ab"]
    packed = bind_kernel("Pack", handles, T="resource").compute(*handles)
    assert packed.shape == (2,)
    unpacked = bind_kernel("Unpack", packed, T="resource", num=2).compute(packed)
    assert unpacked[0] is handles[0]
    assert unpacked[1] is handles[1]


@pytest.mark.jax
@pytest.mark.parametrize("op", ["Shape", "Size", "Rank"])
def test_shapes_are_numpy_values_while_tracing(bind_kernel, op):
    jax = pytest.importorskip("jax")
    compute = bind_kernel(op, X, backend="jax").compute
    seen = []

    def traced(x):
        seen.append(compute(x))
        return x

    jax.jit(traced)(X)
    assert isinstance(seen[0], np.ndarray | np.generic)
