"""`AttrValue` to canonical values and back, without loss (G1)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import dtypes, proto
from graphmill.errors import InvalidArgumentError
from graphmill.ops.attrs.attr_types import UNSET, AttrPlaceholder, FuncAttr, ShapeAttr, TensorAttr
from graphmill.ops.attrs.attr_value import (
    attr_from_proto,
    attr_to_proto,
    attrs_from_proto,
    attrs_to_proto,
)

# One NaN stands for all, those with a sign among them: bytes are compared below.
float32s = st.floats(width=32).map(lambda value: math.nan if math.isnan(value) else value)
int64s = st.integers(-(2**63), 2**63 - 1)
shapes = st.none() | st.lists(st.integers(-1, 9), max_size=3).map(ShapeAttr)
types = st.sampled_from([*dtypes.ALL, dtypes.float32.as_ref])
names = st.text(max_size=3)
tensors = st.lists(int64s, max_size=3).map(lambda v: TensorAttr(np.array(v, np.int64)))
scalars = st.one_of(int64s, float32s, st.booleans(), st.binary(max_size=4), types, shapes, tensors)
funcs = st.builds(FuncAttr, names, st.dictionaries(names, scalars, max_size=2))
lists = st.one_of(
    *(
        st.lists(item, max_size=3).map(tuple)
        for item in (
            *(int64s, float32s, st.booleans(), st.binary(max_size=4)),
            *(types, shapes, tensors, funcs),
        )
    )
)
attr_values = st.one_of(scalars, lists, funcs, st.builds(AttrPlaceholder, names), st.just(UNSET))


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and math.isnan(left):
        return left is right or math.isnan(right)
    if isinstance(left, tuple):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, FuncAttr):
        return left.name == right.name and all(
            same(left.attrs[name], right.attrs[name]) for name in {*left.attrs, *right.attrs}
        )
    return type(left) is type(right) and bool(left == right)


@given(attr_values)
def test_every_value_round_trips_through_bytes(value: Any) -> None:
    data = attr_to_proto(value).SerializeToString()
    assert same(attr_from_proto(proto.AttrValue.FromString(data)), value)


@given(attr_values)
def test_every_message_round_trips(value: Any) -> None:
    message = attr_to_proto(value)
    assert attr_to_proto(attr_from_proto(message)).SerializeToString(
        deterministic=True
    ) == message.SerializeToString(deterministic=True)


def test_an_empty_list_is_a_value() -> None:
    message = attr_to_proto(())
    assert message.HasField("list")
    assert attr_from_proto(message) == ()


def test_shape_is_distinguished_from_list() -> None:
    assert attr_to_proto((1, 2)).list.i == [1, 2]
    assert [d.size for d in attr_to_proto(ShapeAttr((1, 2))).shape.dim] == [1, 2]
    assert attr_to_proto((1, 2), attr_type="shape").HasField("shape")
    assert attr_to_proto(((1,), None), attr_type="list(shape)").list.shape[1].unknown_rank
    assert attr_to_proto(None).shape.unknown_rank
    assert not attr_to_proto(ShapeAttr()).shape.unknown_rank


def test_tensor_message_is_stored_unchanged() -> None:
    message = proto.AttrValue()
    message.tensor.dtype = 1
    message.tensor.tensor_shape.dim.add(size=3)
    message.tensor.float_val.append(1.5)  # one value for three elements
    value = attr_from_proto(message)

    assert (value.dtype, value.shape) == (dtypes.float32, (3,))
    assert value.numpy().tolist() == [1.5] * 3
    assert value.numpy() is value.numpy()
    assert attr_to_proto(value) == message


def test_whole_maps_round_trip() -> None:
    node = proto.NodeDef()
    attrs = {"T": dtypes.float32, "shape": (2, -1), "_class": (b"loc:@x",)}
    attrs_to_proto(attrs, node.attr, {"shape": "shape"})
    assert attrs_from_proto(node.attr) == attrs


def test_a_list_of_several_kinds_is_refused() -> None:
    message = proto.AttrValue()
    message.list.i.append(1)
    message.list.s.append(b"a")
    with pytest.raises(InvalidArgumentError, match="several kinds: s, i"):
        attr_from_proto(message)


@pytest.mark.parametrize("value", ["text", np.float32(1), [1], object(), {"a": 1}])
def test_non_canonical_value_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="not an attr value in canonical form"):
        attr_to_proto(value)


@pytest.mark.parametrize("item", [AttrPlaceholder("x"), (1,)])
def test_invalid_list_element_is_refused(item: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"list attr cannot hold|not an attr value"):
        attr_to_proto((item,))


class Deferred:
    """Values that are read on each access."""

    dtype = np.dtype("int32")
    shape = (2,)
    reads = 0

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        self.reads += 1
        return np.array([1, 2], np.int32)


def test_deferred_array_is_read_when_requested_and_not_kept() -> None:
    source = Deferred()
    value = TensorAttr(source)
    assert (value.dtype, value.shape, source.reads) == (dtypes.int32, (2,), 0)
    assert value.numpy().tolist() == [1, 2]
    assert value.to_proto().tensor_content == np.array([1, 2], np.int32).tobytes()
    assert source.reads == 2


def test_tensors_are_equal_by_type_shape_and_bytes() -> None:
    nan = np.array([np.nan], np.float32)
    assert TensorAttr(nan) == TensorAttr(nan.copy())
    assert hash(TensorAttr(nan)) == hash(TensorAttr(nan.copy()))
    assert TensorAttr(nan) != TensorAttr(nan.astype(np.float64))
    assert TensorAttr(np.array(1)) != TensorAttr(np.array([1]))
    assert TensorAttr(np.array(["a"], object)) == TensorAttr(np.array(["a"], object))
    assert TensorAttr(nan) != 1


def test_cluster_attr_lists_node_names() -> None:
    class Held(FuncAttr):
        """A function attr that holds a program besides its name."""

    assert attr_to_proto(Held("region")).func.name == "region"
