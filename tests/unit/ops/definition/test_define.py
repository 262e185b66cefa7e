"""A decorated function defines an op (hook graphmill_register_ops)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
import pytest

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.graph.builder import Graph
from graphmill.ops.attrs.attr_types import FuncAttr, ShapeAttr
from graphmill.ops.definition.define import op
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.ops.definition.op_functions import op_function
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.runtime.kernels.kernel import kernel, kernels_of

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.typing import Shape

T = TypeVar("T")
Real = TypeVar("Real", np.float32, np.float64)
float32 = dtypes.float32


def definition(function: Any) -> OpDef:
    found: OpDef = function.__graphmill_op__
    return found


@op("MyPackage>ScaleBy", types={"T": dtypes.FLOATING}, family="mine")
@kernel("MyPackage>ScaleBy")
def scale_by(xp: Any, x: T, *, factor: float = 2.0) -> T:
    """Multiply by a number.

    Any number will do.
    """
    return x * factor  # type: ignore[operator, no-any-return]


def test_a_signature_gives_inputs_attrs_outputs_and_texts() -> None:
    found = definition(scale_by)
    assert found == OpDef(
        "MyPackage>ScaleBy",
        (ArgDef("x", type_attr="T"),),
        (ArgDef("output", type_attr="T"),),
        (AttrDef("T", "type", allowed=dtypes.FLOATING), AttrDef("factor", "float", 2.0)),
        family="mine",
        summary="Multiply by a number.",
        description="Any number will do.",
    )


def test_function_is_called_as_before_and_can_be_the_kernel() -> None:
    assert scale_by(np, np.float32(3), factor=2.0) == 6.0
    assert [k.ops for k in kernels_of(scale_by)] == [("MyPackage>ScaleBy",)]


def test_call_with_wrong_arguments_names_the_op_and_how_to_add_a_node() -> None:
    x = Graph().placeholder("float32", name="x")
    with pytest.raises(TypeError) as caught:
        scale_by(x)
    assert str(caught.value) == (
        "scale_by(xp, x, *, factor=2.0), which computes op 'MyPackage>ScaleBy': missing a required "
        "argument: 'x'; graphmill.op_function(scale_by)(x, *, factor=2.0, name=None) adds a node "
        "of the op to a graph"
    )


def test_type_error_of_the_function_itself_is_kept() -> None:
    @op("MyPackage>Fails")
    def fails(xp: Any, x: T) -> T:
        raise TypeError(f"no {x}")

    with pytest.raises(TypeError, match=r"^no 3$"):
        fails(np, 3)


@pytest.mark.parametrize("is_kernel_first", [True, False])
def test_kernels_are_called_without_the_explanation(is_kernel_first: bool) -> None:
    def plain(xp: Any, x: T) -> T:
        return x

    define, declare = op("MyPackage>Plain"), kernel("MyPackage>Plain")
    defined = define(declare(plain)) if is_kernel_first else declare(define(plain))
    assert [one.function for one in kernels_of(defined)] == [plain]


def test_function_adds_nodes_of_it() -> None:
    graph = Graph()
    x = graph.placeholder("float32", name="x")
    y = op_function(scale_by)(x, factor=3, name="y")
    assert (y.name, y.op.op, y.op.attrs) == (
        "y:0",
        "MyPackage>ScaleBy",
        {"T": dtypes.float32, "factor": 3.0},
    )


def test_a_registry_takes_it() -> None:
    ops = OpRegistry()
    ops.add(scale_by)
    graph = Graph(ops)
    x = graph.placeholder("float32")
    assert graph.create_op("MyPackage>ScaleBy", [x]).attrs["factor"] == 2.0


def test_an_op_is_named_after_its_function() -> None:
    @op
    def clip_norm(x: Real, y: Annotated[Any, "int32"]) -> None: ...

    found = definition(clip_norm)
    assert found.name == "ClipNorm"
    assert found.output_args == ()
    assert found.attr("Real").allowed == (dtypes.float32, dtypes.float64)
    assert found.input_args[1].type is dtypes.int32


def test_lists_and_several_outputs_are_declared() -> None:
    @op(outputs=("sums", "count"))
    def gather_all(
        values: list[T], others: list[float32], i: dtypes.int64
    ) -> tuple[list[T], int]: ...  # type: ignore[valid-type, empty-body]

    found = definition(gather_all)
    assert found.input_args == (
        ArgDef("values", type_attr="T", number_attr="N"),
        ArgDef("others", float32, number_attr="N2"),
        ArgDef("i", dtypes.int64),
    )
    assert found.output_args == (
        ArgDef("sums", type_attr="T", number_attr="N"),
        ArgDef("count", dtypes.int32),
    )


def test_attrs_of_every_kind_are_declared() -> None:
    @op
    def every(
        *,
        i: int,
        f: float = 1.5,
        b: bool = True,
        s: str = "x",
        t: DType = dtypes.int8,
        shape: Shape = (None, 2),  # type: ignore[assignment]
        func: FuncAttr = FuncAttr("f"),  # noqa: B008
        value: np.ndarray = np.array(1),  # type: ignore[type-arg]  # noqa: B008
        ints: tuple[int, ...] = (1, 2),
        strings: list[str] = ["a"],  # noqa: B006
        lambda_: int = 3,
    ) -> None: ...

    attrs = {attr.name: (attr.type, attr.default) for attr in definition(every).attrs}
    assert not definition(every).attr("i").has_default
    assert attrs["s"] == ("string", b"x")
    assert attrs["t"] == ("type", dtypes.int8)
    assert attrs["shape"] == ("shape", ShapeAttr((-1, 2)))
    assert attrs["func"] == ("func", FuncAttr("f"))
    assert attrs["value"][0] == "tensor"
    assert attrs["ints"] == ("list(int)", (1, 2))
    assert attrs["strings"] == ("list(string)", (b"a",))
    assert attrs["lambda"] == ("int", 3)


def test_annotations_that_are_objects() -> None:
    def function(x, y, z, *, n):  # type: ignore[no-untyped-def]
        ...

    function.__annotations__ = {
        "x": T,
        "y": np.float64,
        "z": list[T],  # type: ignore[valid-type]
        "n": tuple[int, ...],
        "return": tuple[T, dtypes.float32],  # type: ignore[valid-type]
    }
    found = definition(op("Function")(function))
    assert [arg.type_attr for arg in found.input_args] == ["T", "", "T"]
    assert found.input_args[1].type is dtypes.float64
    assert found.attr("n").type == "list(int)"
    assert [arg.name for arg in found.output_args] == ["output_0", "output_1"]


def no_return(x: T): ...  # type: ignore[no-untyped-def]
def no_annotation(x: T, y) -> None: ...  # type: ignore[no-untyped-def]
def star(*x: T) -> None: ...
def default_input(x: T = 1) -> None: ...  # type: ignore[assignment]
def any_input(x: Any) -> None: ...
def misspelt(x: flaot32) -> None: ...  # type: ignore[name-defined] # noqa: F821
def odd_attr(*, x: dict[str, int]) -> None: ...
def wrong_default(*, x: int = "a") -> None: ...  # type: ignore[assignment]
def list_output(x: T) -> list[T]: ...  # type: ignore[empty-body]
def expression(x: 1 + 2) -> None: ...  # type: ignore[valid-type]
def nested(x: list[list[T]]) -> None: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (no_return, "return annotation is missing"),
        (no_annotation, "'y' needs an annotation"),
        (star, "declare each input"),
        (default_input, "cannot have a default"),
        (any_input, "is not an element type"),
        (misspelt, "did you mean 'float32'"),
        (odd_attr, "not a type for an attr"),
        (wrong_default, "expected an int"),
        (list_output, "needs a list input"),
        (expression, "ops do not support"),
        (nested, "not a type for a tensor"),
    ],
)
def test_signatures_without_an_op_are_refused(function: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        op(function)


def test_output_names_must_match_the_annotation() -> None:
    with pytest.raises(InvalidArgumentError, match="has 2 names, but the return annotation has 1"):
        op("Op", outputs=("a", "b"))(lambda_function)


def lambda_function(x: T) -> T:
    return x


def test_effects_given_as_a_string_are_refused_with_the_list_to_write() -> None:
    with pytest.raises(InvalidArgumentError, match=r"expected a list.*: effects=\['log'\]"):
        op("Mine>Logged", effects="log")(lambda_function)


def test_types_of_python_are_those_of_tensors_made_from_their_values() -> None:
    @op
    def mix(a: bool, b: int, c: float, d: complex, e: str) -> bytes: ...  # type: ignore[empty-body]

    found = definition(mix)
    types = [dtypes.bool, dtypes.int32, dtypes.float32, dtypes.complex128, dtypes.string]
    assert [arg.type for arg in found.input_args] == types
    assert [arg.type for arg in found.output_args] == [dtypes.string]
