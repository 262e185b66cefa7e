"""Kernel inputs, outputs and exceptions (clauses E6, S12)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphmill import dtypes, errors
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.registry import Provenance
from graphmill.runtime.dead import DEAD
from graphmill.runtime.kernels.kernel import KernelDef
from graphmill.runtime.kernels.kernel_errors import as_status, at_node, step_cancelled, with_reason
from graphmill.runtime.kernels.kernel_io import (
    check_output,
    check_outputs,
    checked_dtypes,
    read_refs,
    refs_to_read,
)
from graphmill.runtime.kernels.op_kernel import OpKernel
from graphmill.runtime.resources.variables import Ref
from graphmill.testing.proto_builders import graph_def, node_def

FLOAT = np.dtype("float32")
GRAPH = graph_from_graph_def(
    graph_def(
        node_def("v", "VariableV2", dtype="float32", shape=None),
        node_def("x", "Placeholder", dtype="float32"),
        node_def("assign", "Assign", "v", "v", T="float32"),
        node_def("read", "Identity", "v", T="float32"),
        node_def("is_set", "IsVariableInitialized", "v", dtype="float32"),
        node_def("handle", "VarHandleOp", dtype="float32", shape=None),
        node_def("string", "AsString", "x", T="float32"),
    ),
    OpRegistry(),
)


def some_kernel(xp: Any) -> None:
    """A placeholder for a kernel."""


KERNEL = OpKernel(some_kernel, KernelDef(("Neg",), some_kernel), "n", "Neg")
SOURCE = "some_kernel"


def test_e6_references_are_read_where_a_value_is_needed() -> None:
    assert refs_to_read(GRAPH.node("read")) == (0,)
    assert refs_to_read(GRAPH.node("assign")) == (1,)
    assert refs_to_read(GRAPH.node("string")) == ()
    ref = Ref(dtypes.float32)
    ref.value = np.float32(3)
    inputs: list[Any] = [ref]
    read_refs(GRAPH.node("read"), (0,), inputs)
    assert inputs == [3]


def test_e6_uninitialized_reference_is_an_error_unless_allowed() -> None:
    ref = Ref(dtypes.float32, None, "v")
    with pytest.raises(errors.FailedPreconditionError, match="uninitialized value v"):
        read_refs(GRAPH.node("read"), (0,), [ref])
    assert refs_to_read(GRAPH.node("is_set")) == ()


@pytest.mark.parametrize("missing", [None, DEAD])
def test_e6_missing_inputs_are_skipped(missing: Any) -> None:
    inputs = [missing]
    read_refs(GRAPH.node("read"), (0,), inputs)
    assert inputs == [missing]


def test_e6_arrays_are_checked_and_handles_are_not() -> None:
    assert checked_dtypes(GRAPH.node("x")) == (FLOAT,)
    assert checked_dtypes(GRAPH.node("string"))[0] == np.dtype(object)
    assert checked_dtypes(GRAPH.node("v")) == checked_dtypes(GRAPH.node("handle")) == (None,)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.float64(1), "returned a tensor of float64 for output 0, expected float32"),
        (1.0, "returned float for output 0, expected a tensor of float32"),
        (None, "returned NoneType for output 0"),
    ],
)
def test_e6_a_wrong_output_is_the_kernels_fault(value: Any, words: str) -> None:
    with pytest.raises(errors.InternalError, match=words) as caught:
        check_output(KERNEL, 0, value, FLOAT)
    assert SOURCE in caught.value.message


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ((1,), "returned 1 outputs, expected 2"),
        (None, "returned NoneType outputs, expected 2"),
        (np.zeros(2, FLOAT), "returned ndarray outputs, expected 2"),
        ((np.float32(1), np.int8(1)), "int8 for output 1, expected float32"),
    ],
)
def test_e6_wrong_outputs_are_the_kernels_fault(result: Any, words: str) -> None:
    with pytest.raises(errors.InternalError, match=words):
        check_outputs(KERNEL, (FLOAT, FLOAT), result)


def test_e6_right_and_dead_outputs_pass() -> None:
    check_outputs(KERNEL, (FLOAT, FLOAT, None), (np.zeros(2, FLOAT), DEAD, object()))
    check_outputs(KERNEL, (), None)


@pytest.mark.parametrize(
    ("raised", "cls", "words"),
    [
        (ValueError("bad shape"), errors.InvalidArgumentError, "bad shape"),
        (IndexError(), errors.InvalidArgumentError, "IndexError"),
        (ZeroDivisionError("zero"), errors.InvalidArgumentError, "zero"),
        (MemoryError(), errors.ResourceExhaustedError, "out of memory: MemoryError"),
        (RecursionError("deep"), errors.ResourceExhaustedError, "too deeply: .*deep"),
        (
            TypeError("oops"),
            errors.InternalError,
            rf"the kernel .*{SOURCE} failed: TypeError: oops",
        ),
    ],
)
def test_s12_kernel_exception_becomes_a_status(
    raised: Exception, cls: type[errors.OpError], words: str
) -> None:
    status = as_status(raised, KERNEL)
    assert type(status) is cls
    assert status.__cause__ is raised
    with pytest.raises(cls, match=words):
        raise status


class NoArray:
    """A value that a device plugin might return, without an array's members."""


@pytest.mark.parametrize("member", ["ndim", "dtype", "astype"])
def test_value_that_is_not_like_an_array_is_named(member: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(NoArray(), member)
    message = as_status(caught.value, KERNEL).message
    assert (
        f"NoArray is what a device plugin's to_device returns, it must have {member!r}" in message
    )


@pytest.mark.parametrize(
    ("value", "member"), [(NoArray(), "colour"), ((), "ndim"), (np.zeros(1), "ndims")]
)
def test_other_missing_attributes_are_bugs_of_the_kernel(value: object, member: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(value, member)
    assert "to_device" not in as_status(caught.value, KERNEL).message


def test_s12_status_is_unchanged() -> None:
    error = errors.AbortedError("x")
    assert as_status(error, KERNEL) is error
    assert "of the executor failed" in as_status(TypeError(), None).message


def test_s12_the_place_is_added_once() -> None:
    node = GRAPH.node("read")
    error = at_node(errors.AbortedError("x"), node, KERNEL, "/device:CPU:0", "while:3")
    assert (error.node, error.op_type, error.device) == ("read", "Identity", "/device:CPU:0")
    assert error.message == "x (in iteration while:3)"
    assert error.node_def.name == "read"
    at_node(error, GRAPH.node("x"), None, "/device:CPU:1", "outer:1")
    assert (error.node, error.message) == ("read", "x (in iteration while:3)")


@pytest.mark.parametrize(
    ("owner", "plugin"),
    [
        (None, None),
        (Provenance("kernels", "graphmill", "1", "m"), None),
        (Provenance("mine", "mine-dist", "1", "m"), "mine"),
        (SimpleNamespace(), "namespace()"),
    ],
)
def test_s12_the_plugin_is_named_unless_it_is_built_in(owner: Any, plugin: str | None) -> None:
    kernel = OpKernel(some_kernel, KernelDef(("Neg",), some_kernel), "n", "Neg", owner=owner)
    error = at_node(errors.AbortedError("x"), GRAPH.node("x"), kernel, "/device:CPU:0")
    assert error.plugin == plugin


def test_e13_cancelled_step_has_its_own_error() -> None:
    """Several steps may share the reason, but each error names its own node."""
    reason = errors.CancelledError("Session has been closed.")
    error = step_cancelled(reason)
    assert error is not reason
    assert error.message == "the step was cancelled: Session has been closed."
    assert step_cancelled(None).message == "the step was cancelled"
    deadline = errors.DeadlineExceededError("late")
    assert step_cancelled(deadline) is deadline


def test_e13_node_that_noticed_cancellation_is_not_the_root_cause() -> None:
    noticed, deadline = errors.CancelledError("noticed"), errors.DeadlineExceededError("late")
    assert with_reason(noticed, None) is noticed
    assert not noticed.is_derived
    assert with_reason(noticed, errors.AbortedError("enough")) is noticed
    assert (noticed.message, noticed.is_derived) == ("noticed: enough", True)
    assert with_reason(noticed, errors.AbortedError("enough")).message == "noticed: enough"
    assert with_reason(noticed, deadline) is deadline
    other = errors.OutOfRangeError("end")
    assert with_reason(other, deadline) is other
