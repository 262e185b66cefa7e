"""Decoders of malformed bytes return a result or raise a typed error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphmill.errors import DataLossError, InvalidArgumentError
from graphmill.proto.example_pb2 import Example
from graphmill_plugins.kernels._strings import string_array, string_scalar
from graphmill_plugins.kernels.parsing.csv import csv_fields

REFUSED = (InvalidArgumentError, DataLossError)
NONE = np.zeros(0, object)
shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

_features = st.dictionaries(
    st.sampled_from(["f", "i", "s"]),
    st.one_of(
        st.lists(st.floats(width=32, allow_nan=False), max_size=4),
        st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40),
        st.lists(st.binary(max_size=5), max_size=4),
    ),
)


def serialized(features: dict[str, list[Any]]) -> bytes:
    message = Example()
    for key, values in features.items():
        feature = message.features.feature[key]
        kind = type(values[0]) if values else int
        lists = {float: feature.float_list, int: feature.int64_list, bytes: feature.bytes_list}
        lists[kind].value.extend(values)
        lists[kind].SetInParent()
    return message.SerializeToString()


@st.composite
def damaged(draw: Any) -> bytes:
    content = bytearray(serialized(draw(_features)))
    for _ in range(draw(st.integers(0, 3))):
        if content:
            content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.integers(0, len(content)))])


@shared
@given(content=st.one_of(st.binary(max_size=60), damaged()))
def test_any_bytes_are_an_example_or_refused(call, content):
    dense = {"Tdense": ["float32"], "dense_shapes": [[-1]], "num_sparse": 2}
    kinds = {"sparse_types": ["int64", "string"], "ragged_value_types": ["int64"]}
    keys = (string_array([b"i", b"s"]), string_array([b"f"]), string_array([b"x"]))
    try:
        result = call(
            "ParseExampleV2",
            *(string_array([content]), NONE, *keys, [np.float32(0)]),
            **dense,
            **kinds,
            ragged_split_types=["int64"],
        )
    except InvalidArgumentError:
        return
    assert len(result) == 9


@shared
@given(content=st.one_of(st.binary(max_size=60), damaged()))
def test_any_bytes_are_a_sequence_example_or_refused(call, content):
    keys = [string_array([b"i"]), NONE, NONE, string_array([b"s"]), string_array([b"f"]), NONE]
    try:
        result = call(
            "ParseSequenceExampleV2",
            *(string_array([content]), NONE, *keys, np.array([True]), []),
            context_sparse_types=["int64"],
            Ncontext_sparse=1,
            Nfeature_list_sparse=1,
            Nfeature_list_dense=1,
            feature_list_sparse_types=["string"],
            feature_list_dense_types=["float32"],
            feature_list_dense_shapes=[[1]],
        )
    except InvalidArgumentError:
        return
    assert len(result) == 8


@shared
@pytest.mark.parametrize("dtype", ["float32", "string", "bool"])
@given(content=st.binary(max_size=40))
def test_any_bytes_are_a_tensor_or_refused(call, content, dtype):
    try:
        call("ParseTensor", string_scalar(content), out_type=dtype)
    except InvalidArgumentError:
        return


@shared
@given(content=st.binary(max_size=40), kind=st.sampled_from(["ZLIB", "GZIP"]))
def test_any_bytes_inflate_or_are_refused(call, content, kind):
    try:
        call("DecodeCompressed", string_array([content]), compression_type=kind)
    except REFUSED:
        return


@shared
@given(content=st.one_of(st.binary(max_size=30), st.text('[]{}":,a1', max_size=30)))
def test_any_text_is_json_or_refused(call, content):
    text = content.encode() if isinstance(content, str) else content
    try:
        call("DecodeJSONExample", string_array([text]))
    except InvalidArgumentError:
        return


@given(st.lists(st.text(st.characters(blacklist_categories=["Cs"]), min_size=1), min_size=1))
def test_quoted_fields_round_trip(fields):
    raw = [field.encode() for field in fields]
    record = b",".join(b'"' + field.replace(b'"', b'""') + b'"' for field in raw)
    assert csv_fields(record, b",", use_quotes=True) == raw


@given(st.binary(max_size=40), st.booleans())
def test_any_record_has_fields_or_is_refused(record, use_quotes):
    try:
        csv_fields(record, b",", use_quotes)
    except InvalidArgumentError:
        return
