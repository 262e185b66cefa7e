"""Check that the parameters of a kernel function are the inputs and attrs of its ops.

A kernel takes its inputs by position and its attrs by name. A parameter that is neither would
always keep its default, and the intended attr would never be passed: such a kernel is rejected when
it is registered.
"""

from __future__ import annotations

import inspect
import keyword
import warnings
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphmill.errors import InvalidArgumentError, suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from graphmill.ops.definition.op_def import AttrDef, OpDef
    from graphmill.runtime.kernels.kernel import KernelDef

_NAMESPACE: Final = frozenset({"xp", "_xp"})
_DONE: Final = "done"
_BROKER: Final = "broker"


class Parameters(NamedTuple):
    """The parameters of a kernel function.

    Attributes:
        positional: names of the positional ones, in order.
        keyword_only: names of the keyword-only ones.
        takes_any_position: whether there is `*args`.
        takes_any_keyword: whether there is `**keywords`.
        num_required: how many of `positional` have no default.
    """

    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    takes_any_position: bool
    takes_any_keyword: bool
    num_required: int


def parameters_of(function: Callable[..., object]) -> Parameters:
    """Return the parameters of a function, for plain functions without the cost of `inspect`."""
    code = getattr(function, "__code__", None)
    if code is not None:
        names, count = code.co_varnames, code.co_argcount
        return Parameters(
            names[:count],
            names[count : count + code.co_kwonlyargcount],
            bool(code.co_flags & inspect.CO_VARARGS),
            bool(code.co_flags & inspect.CO_VARKEYWORDS),
            count - len(getattr(function, "__defaults__", None) or ()),
        )
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return Parameters(
        tuple(p.name for p in positional),
        tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY),
        any(p.kind is p.VAR_POSITIONAL for p in parameters),
        any(p.kind is p.VAR_KEYWORD for p in parameters),
        sum(p.default is p.empty for p in positional),
    )


def attr_keywords(
    function: Callable[..., object], op_def: OpDef
) -> tuple[tuple[AttrDef, str], ...]:
    """Return the attrs of an op that a function's parameters name, each with its keyword."""
    known = op_def.attr_keywords.get(id(function))
    if known is None:
        known = op_def.attr_keywords[id(function)] = function, _attr_keywords(function, op_def)
    return known[1]


def _attr_keywords(
    function: Callable[..., object], op_def: OpDef
) -> tuple[tuple[AttrDef, str], ...]:
    parameters = parameters_of(function)
    names = {*parameters.positional, *parameters.keyword_only}
    inputs = {arg.name for arg in op_def.input_args}
    keywords = (
        (attr, attr.name + "_" if keyword.iskeyword(attr.name) else attr.name)
        for attr in op_def.attrs
        if attr.name not in inputs
    )
    return tuple(
        (attr, name) for attr, name in keywords if parameters.takes_any_keyword or name in names
    )


def takes_broker(function: Callable[..., object]) -> bool:
    """Return whether a kernel function takes the broker of its node as keyword argument."""
    return _BROKER in parameters_of(function).keyword_only


def takes_namespace(definition: KernelDef, op_def: OpDef) -> bool:
    """Return whether a kernel function receives the array namespace before the inputs.

    A kernel that always uses the same namespace (a host kernel, or one for a single backend)
    receives it only if its first parameter is called `xp`. (It also receives it if it has `*args`,
    or, which is deprecated, under another name.) An instance of a class never does: its class gets
    the namespace with the node.
    """
    if definition.stateful or isinstance(definition.function, type):
        return False
    if not (definition.host or definition.backend):
        return True
    parameters = parameters_of(definition.function)
    if not parameters.positional:
        return parameters.takes_any_position
    return parameters.positional[0] in _NAMESPACE or _renames_namespace(
        definition, op_def, parameters
    )


def _renames_namespace(definition: KernelDef, op_def: OpDef, parameters: Parameters) -> bool:
    """Return whether there is one more required parameter than inputs and attrs."""
    inputs = {arg.name for arg in op_def.input_args}
    attrs = {*_attr_names(op_def)} - inputs
    required = parameters.positional[: parameters.num_required]
    needed = sum(name not in attrs for name in required)
    return needed > _num_inputs(definition, op_def) and required[0] not in inputs


def _num_leading(definition: KernelDef, op_def: OpDef) -> int:
    """Return the number of arguments before the inputs: the namespace or context, or none."""
    return int(definition.stateful or takes_namespace(definition, op_def))


def _check_namespace_name(definition: KernelDef, op_def: OpDef, parameters: Parameters) -> None:
    """Warn if a kernel that may omit the namespace takes it under another name than `xp`."""
    positional = parameters.positional
    is_general = not (definition.host or definition.backend)
    if definition.stateful or isinstance(definition.function, type) or is_general or not positional:
        return
    name = positional[0]
    if name not in _NAMESPACE and _renames_namespace(definition, op_def, parameters):
        warnings.warn(
            f"the kernel {definition.source} takes the array namespace as {name!r}; call that "
            "parameter 'xp', or leave it out if the kernel does not use it",
            DeprecationWarning,
            stacklevel=2,
        )


def check_signature(definition: KernelDef, op_defs: Sequence[OpDef], what: str = "kernel") -> None:
    """Check the parameters of a kernel against its ops, as far as these are registered.

    Args:
        definition: the definition of the kernel, or of a function that is called like one.
        op_defs: the ops.
        what: what the function is, for messages.

    Raises:
        InvalidArgumentError: it has a parameter that is neither an input nor an attr of its op,
            fewer parameters than the op has inputs, or a static input that the op does not have;
            the message names kernel, op and parameter.
    """
    function: Any = definition.function
    is_class = isinstance(function, type)
    parameters = parameters_of(function.__call__ if is_class else function)
    if is_class:
        parameters = parameters._replace(positional=parameters.positional[1:])
    for op_def in op_defs:
        _check_namespace_name(definition, op_def, parameters)
        _check_inputs(definition, op_def, parameters, what)
    _check_static(definition, op_defs)
    _check_others(definition, op_defs, parameters, what)


def _num_inputs(definition: KernelDef, op_def: OpDef) -> int:
    """Return the number of inputs of the function: none with `make`, which creates the function."""
    return 0 if definition.make else len(op_def.input_args)


def _check_inputs(definition: KernelDef, op_def: OpDef, parameters: Parameters, what: str) -> None:
    expected = _num_inputs(definition, op_def)
    actual = len(parameters.positional) - _num_leading(definition, op_def)
    if actual < expected and not parameters.takes_any_position:
        raise InvalidArgumentError(
            f"the {what} {definition.source} takes {max(actual, 0)} inputs, op {op_def.name!r} has "
            f"{expected}: {_listed(arg.name for arg in op_def.input_args)}. A {what} takes "
            f"{_first_argument(definition, op_def, what)}the inputs in order, then attrs by name",
            op_type=op_def.name,
        )


def _first_argument(definition: KernelDef, op_def: OpDef, what: str) -> str:
    """Return the name of the first argument, if it precedes the inputs, for a message."""
    if what == "lowering":
        return "a TraceContext, "
    if not _num_leading(definition, op_def):
        return ""
    return "an OpKernelContext, " if definition.stateful else "the array namespace, "


def _check_static(definition: KernelDef, op_defs: Sequence[OpDef]) -> None:
    """Check that static inputs are inputs of one of the ops."""
    inputs = {arg.name for op_def in op_defs for arg in op_def.input_args}
    for name in definition.static:
        if op_defs and name not in inputs:
            raise InvalidArgumentError(
                f"the kernel {definition.source} declares static={name!r}, which is not an input "
                f"of op {op_defs[0].name!r}{suggest(name, sorted(inputs))}; its inputs are "
                f"{_listed(sorted(inputs))}",
                op_type=op_defs[0].name,
            )


def _check_others(
    definition: KernelDef, op_defs: Sequence[OpDef], parameters: Parameters, what: str
) -> None:
    """Check the parameters after the inputs; with several ops, after the longest list of inputs."""
    if not op_defs:
        return
    longest = max(op_defs, key=lambda op_def: _num_inputs(definition, op_def))
    num_before = _num_leading(definition, longest) + _num_inputs(definition, longest)
    attrs = {name for op_def in op_defs for name in _attr_names(op_def)}
    for name in (*parameters.positional[num_before:], *parameters.keyword_only):
        if name in attrs or (name == _DONE and definition.async_):
            continue
        if name == _BROKER and definition.brokered and name in parameters.keyword_only:
            continue
        raise InvalidArgumentError(
            f"the {what} {definition.source} has a parameter {name!r}, which is neither an input "
            f"nor an attr of op {longest.name!r}{suggest(name, sorted(attrs))}; its inputs are "
            f"{_listed(arg.name for arg in longest.input_args)}, its attrs "
            f"{_listed(attr.name for attr in longest.attrs)}",
            op_type=longest.name,
        )


def _attr_names(op_def: OpDef) -> list[str]:
    """Return the parameter names of an op's attrs: with a trailing `_` for Python keywords."""
    return [a.name + "_" if keyword.iskeyword(a.name) else a.name for a in op_def.attrs]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
