"""Cases cover every dtype of TensorFlow's CPU kernels, or give a reason."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from graphmill.dtypes import as_dtype
from graphmill.testing.case import load_cases
from graphmill.testing.dtype_coverage import covered_types
from graphmill.testing.oracle.cpu_types import cpu_types

pytestmark = pytest.mark.divided

EXEMPT = tomllib.loads(Path(__file__).with_name("types_without_cases.toml").read_text("utf-8"))
# They take the inputs of TensorFlow's GPU kernel, though they are registered for the CPU.
LEFT_OUT = {("_FusedConv2D", "T", "int8"), ("_FusedConv2D", "T", "qint8")}
WITHOUT_VALUES = {"variant", "resource"}


def without_cases(host):
    """Return the element types without a case, by op and type attr."""
    covered = covered_types(load_cases(), host.ops)
    found = {}
    for op in set(host.kernels.ops()) & set(cpu_types()):
        for attr, names in cpu_types()[op].items():
            missing = set(names) - covered[op][attr] - WITHOUT_VALUES
            if missing:
                found[op, attr] = missing
    return found


def test_every_dtype_of_every_op_has_a_case_or_reason(graphmill_host):
    exempt = {(op, attr) for op, attrs in EXEMPT.items() for attr in attrs}
    assert set(without_cases(graphmill_host)) == exempt


def test_every_type_has_a_kernel(graphmill_host):
    lacking = []
    for op in set(graphmill_host.kernels.ops()) & set(cpu_types()):
        definition = graphmill_host.ops.get(op)
        kernels = graphmill_host.kernels.registrations(definition, ("numpy",))
        for attr, names in cpu_types()[op].items():
            lacking += [
                (op, attr, name)
                for name in names
                if not any(takes(kernel.definition, attr, name) for kernel in kernels)
            ]
    assert set(lacking) == LEFT_OUT


def takes(kernel, attr, name):
    """Return whether a kernel supports an element type in one of its type attrs."""
    types = kernel.types.get(attr)
    return types is None or as_dtype(name) in types
