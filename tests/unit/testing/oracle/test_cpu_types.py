"""The table of TensorFlow's CPU kernels names known ops, attrs and element types."""

from __future__ import annotations

from graphmill.dtypes import as_dtype
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.testing.case import parse_cases
from graphmill.testing.dtype_coverage import covered_types
from graphmill.testing.oracle.cpu_types import cpu_types


def test_ops_attrs_and_types_are_registered():
    ops = OpRegistry()
    known = set(ops.names())
    for op, attrs in cpu_types().items():
        assert op in known
        for attr, names in attrs.items():
            allowed = ops.get(op).attr(attr).allowed
            assert all(not allowed or as_dtype(name) in allowed for name in names), op


def test_dtypes_of_cases_are_listed():
    cases = parse_cases('[[Neg]]\neach.T = ["float32", "int8"]\nin = ["T: [1, -2]"]', "mine")
    assert covered_types(cases, OpRegistry())["Neg"]["T"] == {"float32", "int8"}
