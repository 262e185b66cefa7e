"""`@op`: define an op by a Python function whose signature declares inputs, attrs and outputs.

    T = TypeVar("T")

    @op("MyPackage>ScaleBy", types={"T": dtypes.FLOATING})
    def scale_by(xp, x: T, *, factor: float = 2.0) -> T:
        '''Multiply by a number.'''
        return x * xp.asarray(factor, x.dtype)

The decorator returns a function that is called as before, so `@kernel` of
`graphmill.runtime.kernels.kernel` can also declare it as the op's kernel; a call with wrong
arguments names the op. `graphmill.ops.definition.op_functions.op_function(scale_by)`
returns a function that adds nodes of the op to a graph.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.ops.attrs.attr_types import NO_DEFAULT
from graphmill.ops.definition.annotations import Annotation, attr_type, fixed_type, read_annotation
from graphmill.ops.definition.names import op_name
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.ops.definition.op_def_validation import validate_op_def
from graphmill.ops.definition.op_registry import OP_ATTRIBUTE
from graphmill.ops.definition.op_traits import DEFAULT_TRAITS, OpTraits, effect_set
from graphmill.registry import PLAIN_FUNCTION, function_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from graphmill.dtypes import DType
    from graphmill.ops.inference.shape_inference import ShapeFunction
    from graphmill.ops.inference.value_inference import ValueFunction

_Function = TypeVar("_Function", bound="Callable[..., Any]")


@overload
def op(name: _Function, /) -> _Function: ...


@overload
def op(
    name: str | None = None,
    /,
    *,
    types: Mapping[str, Iterable[Any]] | None = None,
    outputs: Sequence[str] = (),
    stateful: bool = False,
    commutative: bool = False,
    family: str = "",
    shape: ShapeFunction | None = None,
    value: ValueFunction | None = None,
    effects: Iterable[str] | None = None,
    traits: OpTraits | None = None,
) -> Callable[[_Function], _Function]: ...


def op(
    name: Any = None,
    /,
    *,
    types: Mapping[str, Iterable[Any]] | None = None,
    outputs: Sequence[str] = (),
    stateful: bool = False,
    commutative: bool = False,
    family: str = "",
    shape: ShapeFunction | None = None,
    value: ValueFunction | None = None,
    effects: Iterable[str] | None = None,
    traits: OpTraits | None = None,
) -> Any:
    """Declare an op by the signature of the decorated function.

    A first parameter that is named `xp`, `ctx` or `context`, or has no annotation, is the array
    namespace or context of a kernel and does not belong to the op. Other positional parameters are
    inputs; keyword-only parameters are attrs, optional if they have a default; the return
    annotation declares the outputs.

    Annotations of inputs and outputs are a type variable (`T`: any element type, or its
    constraints), an element type (`dtypes.float32`, `np.float32`, `"float32"`), or `list[...]` of
    one of these for a list of tensors. `bool`, `int`, `float`, `complex`, `str` and `bytes` stand
    for the element types of tensors made from such values: bool, int32, float32, complex128,
    string. Annotations of attrs are `int`, `float`, `bool`, `str`, `bytes`, `DType`, `Shape`,
    `FuncAttr`, `np.ndarray` (a tensor), or `list[...]` or `tuple[..., ...]` of one of these.
    `-> None` declares no outputs, `-> tuple[T, int]` declares two.

    Args:
        name: the op's name; by default that of the function in CamelCase. A prefix as in
            `"MyPackage>ScaleBy"` avoids conflicts with ops of other packages.
        types: maps type variables to the element types that they may stand for.
        outputs: names of the outputs.
        stateful: whether two equal calls may differ, so that they must not be merged.
        commutative: whether its two inputs may be swapped.
        family: the family of the op.
        shape: infers the shapes of its outputs, see `graphmill.ops.inference.shape_inference`;
            without it the static shapes are unknown.
        value: infers static values of its outputs, see `graphmill.ops.inference.value_inference`.
        effects: its effects, a subset of `graphmill.ops.definition.op_traits.EFFECTS`; short for
            `traits` with only effects.
        traits: its traits, see `graphmill.ops.definition.op_traits`.

    Raises:
        InvalidArgumentError: the signature does not define an op, an effect is unknown, the traits
            contradict the signature, or both `effects` and traits with effects are given.
    """
    if callable(name):
        return op()(name)
    declared = _traits(effects, traits)

    def define(function: _Function) -> _Function:
        options: dict[str, Any] = {"is_stateful": stateful, "is_commutative": commutative}
        options |= {"family": family, "shape_function": shape, "value_function": value}
        options["traits"] = declared
        op_def = op_def_from_function(
            function, name or op_name(function.__name__), types or {}, outputs, **options
        )
        setattr(function, OP_ATTRIBUTE, op_def)
        return function if inspect.isclass(function) else _explaining(function, op_def)

    return define


def _explaining(function: _Function, op_def: OpDef) -> _Function:
    """Return the function with errors that explain wrong arguments.

    A frequent mistake is to call it to add a node, as one calls the functions of `graphmill.ops`.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            problem = _wrong_arguments(function, args, kwargs)
            if not problem:
                raise
            raise TypeError(_call_advice(function, op_def, problem)) from error

    setattr(call, PLAIN_FUNCTION, function)
    return cast("_Function", call)


def _wrong_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str:
    """Return why a function cannot be called with arguments; empty if it can."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return ""


def _call_advice(function: Callable[..., Any], op_def: OpDef, problem: str) -> str:
    from graphmill.ops.definition.op_functions import op_signature  # after a mistake only

    name = function.__name__
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
    ]
    return (
        f"{name}{inspect.Signature(parameters)}, which computes op {op_def.name!r}: {problem}; "
        f"graphmill.op_function({name}){op_signature(op_def)} adds a node of the op to a graph"
    )


def _traits(effects: Iterable[str] | None, traits: OpTraits | None) -> OpTraits:
    """Return the traits that the arguments of `op` declare."""
    declared = traits or DEFAULT_TRAITS
    if effects is None:
        return declared
    if declared.effects is not None:
        raise InvalidArgumentError("@op takes effects, or traits with effects, but not both")
    return declared._replace(effects=effect_set(effects))


def op_def_from_function(
    function: Callable[..., Any],
    name: str,
    types: Mapping[str, Iterable[Any]],
    outputs: Sequence[str] = (),
    **options: Any,
) -> OpDef:
    """Return the definition that a function's signature declares; see `op`.

    Raises:
        InvalidArgumentError: the signature does not define an op.
    """
    reader = _Reader(function, name, types)
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and _is_of_kernel(parameters[0]):
        del parameters[0]
    for parameter in parameters:
        reader.add(parameter)
    results = reader.results(outputs)
    summary, _, description = (inspect.getdoc(function) or "").partition("\n")
    op_def = OpDef(
        name,
        tuple(reader.inputs),
        results,
        (*reader.type_attrs.values(), *reader.number_attrs, *reader.attrs),
        summary=summary,
        description=description.strip(),
        **options,
    )
    validate_op_def(op_def)
    return op_def


def _is_of_kernel(parameter: inspect.Parameter) -> bool:
    """Return whether a first parameter belongs to the kernel, not to the op."""
    return (
        parameter.name in ("xp", "ctx", "context")
        or parameter.annotation is inspect.Parameter.empty
    )


class _Reader:
    """The parts of a definition, read from a signature parameter by parameter."""

    def __init__(
        self, function: Callable[..., Any], name: str, types: Mapping[str, Iterable[Any]]
    ) -> None:
        self.function = function
        self.name = name
        self.allowed = {key: tuple(map(dtypes.as_dtype, some)) for key, some in types.items()}
        self.inputs: list[ArgDef] = []
        self.type_attrs: dict[str, AttrDef] = {}
        self.number_attrs: list[AttrDef] = []
        self.attrs: list[AttrDef] = []

    def add(self, parameter: inspect.Parameter) -> None:
        """Add a parameter to the definition."""
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise self.error(
                f"parameter '{parameter}' is not allowed; declare each input and attr separately"
            )
        if parameter.annotation is parameter.empty:
            raise self.error(f"parameter {parameter.name!r} needs an annotation")
        annotation = self.read(parameter.annotation, parameter.name)
        if parameter.kind is parameter.KEYWORD_ONLY:
            self.add_attr(parameter, annotation)
        elif parameter.default is not parameter.empty:
            raise self.error(f"input {parameter.name!r} cannot have a default; attrs (after *) can")
        else:
            self.add_input(parameter.name, annotation)

    def add_attr(self, parameter: inspect.Parameter, annotation: Annotation) -> None:
        """Add an attr for a keyword-only parameter."""
        name = parameter.name.rstrip("_")
        kind = attr_type(annotation)
        if kind is None:
            raise self.error(f"attr {parameter.name!r}: {annotation} is not a type for an attr")
        attr = AttrDef(name, kind)
        if parameter.default is not parameter.empty:
            default = NO_DEFAULT if parameter.default is NO_DEFAULT else parameter.default
            attr = AttrDef(name, kind, attr.canonical(default, self.name))
        self.attrs.append(attr)

    def add_input(self, name: str, annotation: Annotation) -> None:
        """Add an input for a positional parameter."""
        number_attr = ""
        if annotation.is_list:
            number_attr = "N" if not self.number_attrs else f"N{len(self.number_attrs) + 1}"
            self.number_attrs.append(AttrDef(number_attr, "int", minimum=0))
        self.inputs.append(self.argument(name.rstrip("_"), annotation, number_attr))

    def results(self, names: Sequence[str]) -> tuple[ArgDef, ...]:
        """Return the outputs that the return annotation declares."""
        returned = inspect.signature(self.function).return_annotation
        if returned is inspect.Signature.empty:
            raise self.error("the return annotation is missing; it declares the outputs")
        annotation = self.read(returned, "return")
        if annotation.name == "None":
            parts: tuple[Annotation, ...] = ()
        else:
            parts = annotation.parts if annotation.name == "tuple" else (annotation,)
        if not names:
            one = len(parts) == 1
            names = ["output"] if one else [f"output_{index}" for index in range(len(parts))]
        if len(names) != len(parts):
            raise self.error(
                f"outputs has {len(names)} names, but the return annotation has {len(parts)} "
                "outputs"
            )
        return tuple(
            self.argument(name, part, self.output_length(part))
            for name, part in zip(names, parts, strict=True)
        )

    def output_length(self, annotation: Annotation) -> str:
        """Return the attr that determines the length of a list output."""
        if not annotation.is_list:
            return ""
        if not self.number_attrs:
            raise self.error("a list output needs a list input of the same length")
        return self.number_attrs[0].name

    def argument(self, name: str, annotation: Annotation, number_attr: str) -> ArgDef:
        """Return an input or output with the annotated type."""
        element = annotation.parts[0] if annotation.is_list else annotation
        if element.parts:
            raise self.error(f"{name!r}: {annotation} is not a type for a tensor")
        fixed = self.fixed(element, name)
        if fixed is not None:
            return ArgDef(name, fixed, number_attr=number_attr)
        if element.name not in self.type_attrs:
            allowed = self.allowed.get(element.name, element.constraints)
            self.type_attrs[element.name] = AttrDef(element.name, "type", allowed=allowed)
        return ArgDef(name, type_attr=element.name, number_attr=number_attr)

    def fixed(self, element: Annotation, name: str) -> DType | None:
        """Return the element type that an annotation names; None for a type variable."""
        try:
            return fixed_type(element)
        except InvalidArgumentError as error:
            raise self.error(f"{name!r}: {error.message}") from None

    def read(self, annotation: Any, name: str) -> Annotation:
        """Read an annotation; errors name the parameter."""
        try:
            return read_annotation(annotation, getattr(self.function, "__globals__", {}))
        except InvalidArgumentError as error:
            raise self.error(f"{name!r}: {error.message}") from None

    def error(self, problem: str) -> InvalidArgumentError:
        """Return an error about the function."""
        where = function_source(self.function)
        return InvalidArgumentError(f"@op {self.name} ({where}): {problem}", op_type=self.name)
