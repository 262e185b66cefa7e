"""Kernels are bound to nodes (clause E11)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from graphmill import dtypes, errors
from graphmill.ops.attrs.attr_types import FuncAttr, ShapeAttr, TensorAttr
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.runtime.kernels.kernel import KernelDef, kernel, kernels_of
from graphmill.runtime.kernels.op_kernel import (
    NOT_NOW,
    OpKernel,
    OpKernelConstruction,
    bind,
    python_value,
)
from graphmill.runtime.resources.variables import Variable

ADD = OpDef(
    "Add",
    (ArgDef("x", type_attr="T"), ArgDef("y", type_attr="T")),
    (ArgDef("z", type_attr="T"),),
    (AttrDef("T", "type"), AttrDef("name", "string"), AttrDef("lambda", "float")),
)
SPLIT = OpDef(
    "Split",
    (ArgDef("axis", dtypes.int32), ArgDef("values", type_attr="T", number_attr="N")),
    (ArgDef("first", type_attr="T"), ArgDef("rest", type_attr="T", number_attr="N")),
    (AttrDef("T", "type"), AttrDef("N", "int")),
)
PACK = OpDef(
    "Pack",
    (ArgDef("values", type_attr="T", number_attr="N"),),
    (ArgDef("output", type_attr="T", number_attr="N"),),
    (AttrDef("T", "type"), AttrDef("N", "int")),
)
FLOAT = {"T": dtypes.float32, "name": b"caf\xc3\xa9\xff", "lambda": 0.5}


def bound(declared: Any, op_def: OpDef, **attrs: Any) -> Any:
    """The compute function of a kernel for a node."""
    (definition,) = kernels_of(declared)
    construction = OpKernelConstruction("n", op_def, attrs, None, np)
    return bind(definition, construction).compute


def test_e11_kernel_gets_namespace_inputs_and_named_attrs() -> None:
    @kernel("Add")
    def add(xp: Any, x: Any, y: Any, *, T: Any, name: Any, lambda_: Any) -> Any:
        return xp, x, y, T, name, lambda_

    result = bound(add, ADD, **FLOAT)(1, 2)
    assert result == (np, 1, 2, np.dtype("float32"), "café\udcff", 0.5)


def test_e11_a_kernel_may_take_all_attrs_or_none() -> None:
    @kernel("Add")
    def every(xp: Any, x: Any, y: Any, **attrs: Any) -> Any:
        return sorted(attrs)

    @kernel("Add")
    def none(xp: Any, x: Any, y: Any) -> Any:
        return x + y

    assert bound(every, ADD, **FLOAT)(1, 2) == ["T", "lambda_", "name"]
    assert bound(none, ADD, **FLOAT)(1, 2) == 3


def test_e11_an_input_hides_an_attr_of_its_name() -> None:
    op_def = OpDef("F", (ArgDef("x", dtypes.int32),), (), (AttrDef("x", "int"),))

    @kernel("F")
    def function(xp: Any, x: Any) -> Any:
        return x

    assert bound(function, op_def, x=5)("input") == "input"


@pytest.mark.parametrize("options", [{"host": True}, {"backend": "numpy"}])
def test_kernel_of_one_namespace_may_leave_it_out(options: dict[str, Any]) -> None:
    @kernel("Add", **options)
    def plain(x: Any, y: Any) -> Any:
        return x, y

    @kernel("Add", **options)
    def with_attrs(x: Any, y: Any, lambda_: float, scale: float = 2.0) -> Any:
        return x, y, lambda_, scale

    @kernel("Add", make=True, **options)
    def made(lambda_: float) -> Any:
        return lambda x, y: (x, y, lambda_)

    assert bound(plain, ADD, **FLOAT) is plain
    assert bound(with_attrs, ADD, **FLOAT)(1, 2) == (1, 2, 0.5, 2.0)
    assert bound(made, ADD, **FLOAT)(1, 2) == (1, 2, 0.5)


@pytest.mark.parametrize("options", [{"host": True}, {"backend": "numpy"}])
def test_kernel_of_one_namespace_gets_it_as_xp(options: dict[str, Any]) -> None:
    @kernel("Add", **options)
    def add(xp: Any, x: Any, y: Any) -> Any:
        return xp, x, y

    @kernel("Add", make=True, **options)
    def made(xp: Any) -> Any:
        return lambda x, y: (xp, x, y)

    assert bound(add, ADD, **FLOAT)(1, 2) == (np, 1, 2)
    assert bound(made, ADD, **FLOAT)(1, 2) == (np, 1, 2)


def test_host_kernel_with_list_input_may_leave_the_namespace_out() -> None:
    @kernel("Split", host=True)
    def split(axis: Any, values: Any) -> Any:
        return axis, values

    assert bound(split, SPLIT, T=dtypes.float32, N=2)(0, 1, 2) == [0, 1, 2]


def test_signature_of_callable_host_object_is_inspected() -> None:
    class Callable:
        def __call__(self, x: Any, y: Any, *, T: Any) -> Any:
            return x, y, T

    definition = KernelDef(("Add",), Callable(), host=True)
    construction = OpKernelConstruction("n", ADD, FLOAT, None, np)
    assert bind(definition, construction).compute(1, 2) == (1, 2, np.dtype("float32"))


def test_e11_a_ufunc_may_be_a_kernel() -> None:
    definition = KernelDef(("Neg",), lambda xp: xp.negative, make=True)
    op_def = OpDef("Neg", (ArgDef("x", dtypes.float32),), (ArgDef("y", dtypes.float32),))
    construction = OpKernelConstruction("n", op_def, {}, None, np)
    assert bind(definition, construction).compute is np.negative


def test_e11_bound_kernel_has_its_declared_variable() -> None:
    @kernel("Add", stateful=True, variable="kept")
    class Sum:
        def __init__(self, construction: Any) -> None:
            self.kept = Variable(dtypes.float32, (), construction.node_name)

        def __call__(self, ctx: Any, x: Any, y: Any) -> Any:
            self.kept.value = x + y
            return self.kept.value

    (definition,) = kernels_of(Sum)
    made = bind(definition, OpKernelConstruction("n", ADD, FLOAT, None, np))
    assert made.variable is not None
    assert made.compute(None, 1, 2) == made.variable.value == 3
    assert (definition.is_traceable, definition.keeps_variable) == (False, True)
    assert not replace(definition, host=True).keeps_variable


def test_e11_signature_of_callable_object_is_inspected() -> None:
    class Callable:
        def __call__(self, xp: Any, x: Any, y: Any, *, T: Any) -> Any:
            return T

    definition = KernelDef(("Add",), Callable())
    construction = OpKernelConstruction("n", ADD, FLOAT, None, np)
    assert bind(definition, construction).compute(1, 2) == np.dtype("float32")


def test_e11_per_node_work_is_done_once() -> None:
    made = []

    @kernel("Add", make=True)
    def make(xp: Any, *, lambda_: float) -> Any:
        made.append(lambda_)
        return lambda x, y: lambda_ * (x + y)

    compute = bound(make, ADD, **FLOAT)
    assert [compute(1, 1), compute(2, 2)] == [1.0, 2.0]
    assert made == [0.5]


def test_e11_stateful_function_gets_a_context() -> None:
    @kernel("Add", stateful=True)
    def add(ctx: Any, x: Any, y: Any, *, name: str) -> Any:
        return ctx, x, y, name[:3]

    @kernel("Add", stateful=True)
    def plain(ctx: Any, x: Any, y: Any) -> Any:
        return ctx

    assert bound(add, ADD, **FLOAT)("ctx", 1, 2) == ("ctx", 1, 2, "caf")
    assert bound(plain, ADD, **FLOAT)("ctx", 1, 2) == "ctx"


def test_e11_a_class_is_made_for_the_node() -> None:
    @kernel("Add", stateful=True)
    class Add:
        def __init__(self, construction: OpKernelConstruction) -> None:
            self.made_for = construction.node_name, construction.op, construction.attr("lambda")

        def __call__(self, ctx: Any, x: Any, y: Any) -> Any:
            return self.made_for

    assert bound(Add, ADD, **FLOAT)("ctx", 1, 2) == ("n", "Add", 0.5)


def test_e11_list_inputs_are_lists_and_list_outputs_are_flattened() -> None:
    @kernel("Split")
    def split(xp: Any, axis: Any, values: list[Any]) -> Any:
        return axis, [value + 1 for value in values]

    assert bound(split, SPLIT, T=dtypes.int32, N=2)(7, 1, 2) == [7, 2, 3]


def test_e11_a_list_may_have_one_element_or_none() -> None:
    @kernel("Split")
    def split(xp: Any, axis: Any, values: list[Any]) -> Any:
        return axis, values

    assert bound(split, SPLIT, T=dtypes.int32, N=0)(7) == 7
    assert bound(split, SPLIT, T=dtypes.int32, N=1)(7, 1) == [7, 1]


@pytest.mark.parametrize(("inputs", "result"), [((1,), 1), ((1, 2), [1, 2])])
def test_e11_single_list_input_and_output_stay_lists(inputs: tuple, result: Any) -> None:
    @kernel("Pack")
    def pack(xp: Any, values: list[Any]) -> Any:
        assert type(values) is list
        return values

    assert bound(pack, PACK, T=dtypes.int32, N=len(inputs))(*inputs) == result


def test_e11_stateful_kernel_gets_context_before_list_inputs() -> None:
    @kernel("Pack", stateful=True)
    def pack(ctx: Any, values: list[Any]) -> Any:
        return [ctx, *values]

    assert bound(pack, PACK, T=dtypes.int32, N=3)("ctx", 1, 2) == ["ctx", 1, 2]


@pytest.mark.parametrize("error", [None, errors.AbortedError("stop")])
def test_e6_the_outputs_of_an_asynchronous_kernel_go_flat_too(error: Any) -> None:
    @kernel("Split", async_=True)
    def split(ctx: Any, axis: Any, values: list[Any], *, done: Any) -> None:
        done((axis, values), error)

    outcome: list[Any] = []
    compute = bound(split, SPLIT, T=dtypes.int32, N=2)
    compute("ctx", 7, 1, 2, done=lambda outputs, error: outcome.append((outputs, error)))
    assert outcome == [([7, 1, 2], None) if error is None else (None, error)]


def test_e6_try_now_has_the_inputs_and_outputs_of_the_kernel() -> None:
    @kernel("Split", async_=True)
    class Split:
        def __init__(self, construction: OpKernelConstruction) -> None:
            del construction

        def try_now(self, ctx: Any, axis: Any, values: list[Any]) -> Any:
            return NOT_NOW if axis < 0 else (axis, values)

        def __call__(self, ctx: Any, axis: Any, values: list[Any], done: Any) -> None:
            done((axis, values))

    (definition,) = kernels_of(Split)
    made = bind(definition, OpKernelConstruction("n", SPLIT, {"T": dtypes.int32, "N": 2}, None, np))
    assert made.try_now is not None
    assert made.try_now("ctx", 7, 1, 2) == [7, 1, 2]
    assert made.try_now("ctx", -1, 1, 2) is NOT_NOW


def test_e6_try_now_is_not_used_past_a_replaced_call() -> None:
    made = OpKernel(lambda: None, KernelDef(("Add",), None, async_=True), "n", "Add")
    made.set_try_now(lambda: 1)
    assert made.try_now is not None
    for changed in (made.with_call(lambda: None), made.for_node("m", made.compute)):
        assert changed.try_now is None
    compute = made.compute
    made.compute = lambda *inputs: compute(*inputs)
    assert made.try_now is None


def test_e11_missing_attr_is_an_internal_error() -> None:
    @kernel("Add")
    def add(xp: Any, x: Any, y: Any, *, name: str) -> Any:
        return name

    with pytest.raises(errors.InternalError, match="'name' of op Add was not filled in") as e:
        bound(add, ADD, T=dtypes.float32)
    assert e.value.node == "n"


def test_e11_kernel_construction_lists_attrs() -> None:
    construction = OpKernelConstruction("n", ADD, FLOAT, None, np)
    assert construction.attr("T") == np.dtype("float32")
    with pytest.raises(errors.InvalidArgumentError, match="no attr 'N'; it has T, name, lambda"):
        construction.attr("N")


@pytest.mark.parametrize(
    ("canonical", "seen"),
    [
        (dtypes.float32, np.dtype("float32")),
        (b"text", "text"),
        ((b"a", b"b"), ("a", "b")),
        ((dtypes.int8,), (np.dtype("int8"),)),
        (ShapeAttr((2, -1)), (2, -1)),
        (None, None),
        (3, 3),
        (FuncAttr("f"), FuncAttr("f")),
    ],
)
def test_e11_attrs_as_kernels_see_them(canonical: Any, seen: Any) -> None:
    assert python_value(canonical) == seen


def test_e11_a_tensor_attr_is_seen_as_an_array() -> None:
    array = np.arange(3)
    assert python_value(TensorAttr(array)) is array
