"""A Python function for each op, created from its definition on first use.

`graphmill.ops.math.add_v2(x, y)` adds an `AddV2` node to the graph of its inputs, or to the default
graph, and returns its output. Inputs may be tensors or values, which become `Const` nodes.
"""

from __future__ import annotations

import inspect
import sys
from collections import namedtuple
from functools import cache
from typing import TYPE_CHECKING, Any

from graphmill.dtypes import DType
from graphmill.errors import suggest
from graphmill.ops.attrs import attr_check
from graphmill.ops.attrs.attr_types import FuncAttr, TensorAttr
from graphmill.ops.definition.names import function_name, parameter_name
from graphmill.ops.definition.op_registry import as_op_def, bundled_ops
from graphmill.ops.definition.op_summaries import summary_of
from graphmill.ops.inputs.default_graph import get_default_graph
from graphmill.ops.inputs.input_values import plan_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.ops.definition.op_def import AttrDef, OpDef
    from graphmill.ops.inputs.default_graph import GraphLike


def op_function(op: Any, module: str = "graphmill.ops") -> Callable[..., Any]:
    """Return the function that adds a node of an op to a graph.

    The function takes the op's inputs by position or keyword; by keyword the attrs that the inputs
    do not determine; and `name`. It returns the output, a named tuple of several outputs, a list
    for a list output, or the node for an op without outputs.

    Args:
        op: an `OpDef`, its message, a function decorated with
            `graphmill.ops.definition.define.op`, or the name of an op of TensorFlow or of an
            installed plugin.
        module: `__module__` of the function.
    """
    op_def = as_op_def(op)
    signature = op_signature(op_def)
    inputs = [parameter_name(arg.name) for arg in op_def.input_args]
    attrs = {parameter_name(attr.name): attr.name for attr in explicit_attrs(op_def)}

    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{function.__name__}{signature}: {error}") from None
        return add_op(
            op_def,
            [bound[name] for name in inputs],
            {attrs[key]: value for key, value in bound.items() if key in attrs},
            bound.get("name"),
        )

    function.__name__ = function.__qualname__ = function_name(op_def.name)
    function.__module__ = module
    function.__doc__ = op_docstring(op_def)
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__graphmill_op__ = op_def  # type: ignore[attr-defined]
    return function


def add_op(
    op_def: OpDef, inputs: Sequence[Any], attrs: dict[str, Any], name: str | None = None
) -> Any:
    """Add a node; return the result of the op's function.

    If inputs or attrs are invalid, no nodes are added.

    Raises:
        InvalidArgumentError: an input or attr is invalid, or inputs belong to several graphs.
        FailedPreconditionError: no input is a tensor and there is no default graph.
    """
    plan = plan_inputs(op_def, inputs)
    graph: GraphLike = plan.graph or get_default_graph()
    canonical = op_def.canonical_attrs(attrs)
    complete = op_def.with_defaults({**canonical, **op_def.infer_attrs(plan.types)})
    op_def.check_attrs(complete)
    with graph.name_scope(name or op_def.name.replace(">", "_").lstrip("_")) as scope:
        node = graph.create_op(op_def, plan.make(graph), complete, name=scope)
    return _result(op_def, graph.outputs_of(node), node)


def explicit_attrs(op_def: OpDef) -> list[AttrDef]:
    """Return the attrs that inputs do not determine, in order, those without default first."""
    inferred = {
        name
        for arg in op_def.input_args
        for name in (arg.type_attr, arg.type_list_attr, arg.number_attr)
    }
    attrs = [attr for attr in op_def.attrs if attr.name not in inferred]
    return sorted(attrs, key=lambda attr: attr.has_default)


def op_signature(op_def: OpDef) -> inspect.Signature:
    """Return the signature of an op's function."""
    parameters = [
        inspect.Parameter(parameter_name(arg.name), inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for arg in op_def.input_args
    ]
    parameters += [
        inspect.Parameter(
            parameter_name(attr.name),
            inspect.Parameter.KEYWORD_ONLY,
            default=plain_value(attr.default) if attr.has_default else inspect.Parameter.empty,
        )
        for attr in explicit_attrs(op_def)
    ]
    parameters.append(inspect.Parameter("name", inspect.Parameter.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters)


def op_docstring(op_def: OpDef) -> str:
    """Return the docstring of an op's function."""
    adds = f"Add a node of op `{op_def.name}` to the graph."
    summary = summary_of(op_def)
    lines = [summary, "", adds, ""] if summary else [adds, ""]
    if op_def.description:
        lines += [op_def.description, ""]
    lines.append("Args:")
    for arg in op_def.input_args:
        about = f" {arg.description}" if arg.description else ""
        lines.append(f"    {parameter_name(arg.name)}: {_arg_text(arg)}.{about}")
    for attr in explicit_attrs(op_def):
        about = f" {attr.description}" if attr.description else ""
        text = attr_check.describe(attr).partition(": ")[2]
        lines.append(f"    {parameter_name(attr.name)}: {text}.{about}")
    lines.append("    name: name of the node.")
    shown = explicit_attrs(op_def)
    types = [attr for attr in op_def.attrs if attr.allowed and attr not in shown]
    if types:
        lines += ["", "Types:", *(f"    {attr_check.describe(attr)}." for attr in types)]
    outputs = ", ".join(f"{arg.name} ({_arg_text(arg)})" for arg in op_def.output_args)
    lines += ["", "Returns:", f"    {outputs or 'The node; the op has no outputs'}."]
    return "\n".join(lines)


def plain_value(canonical: Any) -> Any:
    """Return a canonical attr value in the form that a user would write."""
    if isinstance(canonical, bytes):
        try:
            return canonical.decode()
        except UnicodeDecodeError:
            return canonical
    if isinstance(canonical, tuple):
        return tuple(plain_value(item) for item in canonical)
    if isinstance(canonical, TensorAttr):
        return canonical.numpy()
    if isinstance(canonical, FuncAttr) and not canonical.attrs:
        return canonical.name
    return canonical


def family_functions(
    module: str,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a module with the functions of a family's ops.

    The module `graphmill.ops.<family>` creates each function on first access.
    """
    family = module.rpartition(".")[2]

    def module_getattr(name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            if name == "__all__":
                return list(_family_names(family))
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        op_name = _family_names(family).get(name)
        if op_name is None:
            from graphmill.tensorflow_names import hint

            more = _other_family(name) or hint(name) or suggest(name, _family_names(family))
            raise AttributeError(f"module {module!r} has no op function {name!r}{more}")
        function = op_function(bundled_ops().get(op_name), module)
        setattr(sys.modules[module], name, function)
        return function

    return module_getattr, lambda: sorted(_family_names(family))


@cache
def _family_names(family: str) -> dict[str, str]:
    """Map the function names of a family to op names."""
    return {function_name(name): name for name in bundled_ops().families()[family]}


def _other_family(name: str) -> str:
    """Return a hint about another family with a function of that name, or ""."""
    for family in bundled_ops().families():
        if name in _family_names(family):
            return f"; it is graphmill.ops.{family}.{name}"
    return ""


def _result(op_def: OpDef, outputs: list[Any], node: Any) -> Any:
    if not op_def.output_args:
        return node
    ranges = op_def.output_ranges(node.attrs)
    parts = [
        outputs[start:stop] if arg.is_list else outputs[start]
        for arg, (start, stop) in zip(op_def.output_args, ranges.values(), strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    fields = tuple(parameter_name(arg.name) for arg in op_def.output_args)
    return _outputs_class(op_def.name.replace(">", "_").lstrip("_"), fields)(*parts)


@cache
def _outputs_class(name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    return namedtuple(name, fields, rename=True)  # noqa: PYI024 - known at run time only


def _arg_text(arg: Any) -> str:
    if arg.type_list_attr:
        text = f"list of tensors of types {arg.type_list_attr}"
    else:
        dtype = arg.type.name if isinstance(arg.type, DType) else f"type {arg.type_attr}"
        text = f"list of {arg.number_attr} tensors of {dtype}" if arg.number_attr else f"of {dtype}"
    return f"a reference, {text}" if arg.is_ref else text
