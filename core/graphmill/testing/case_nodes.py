"""Parse the nodes and functions of case programs: `y = AddV2(x, z, after=[init])`.

The text is a subset of Python's grammar, so Python's parser reads it; it is never executed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphmill.testing.case_inputs import SpecError, literal

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Source:
    """Name an output of a node or a feed; a feed has one output."""

    node: str
    output: int = 0


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Describe one node; a list input is a tuple of sources. `attrs` are raw, dtypes as names."""

    name: str
    op: str
    inputs: tuple[Source | tuple[Source, ...], ...]
    attrs: Mapping[str, Any]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """Describe a function of a program: typed arguments, nodes, returned sources."""

    name: str
    arguments: tuple[tuple[str, str], ...]
    results: tuple[str, ...]
    nodes: tuple[NodeSpec, ...]
    returns: tuple[Source, ...]


def parse_node(text: str, values: Mapping[str, Any] | None = None) -> NodeSpec:
    """Parse one node.

    Args:
        text: `name = Op(input, ..., attr=value, after=[...])`.
        values: the values of names in attr values (the table's attrs and swept keys); other names
            are used as they are.

    Raises:
        SpecError: the text is not of this form.
    """
    try:
        statement = ast.parse(text.strip()).body
    except SyntaxError as error:
        raise SpecError(f"{text!r} is not a node: {error}") from error
    if len(statement) != 1:
        raise SpecError(f"{text!r} is not one node")
    return _node(statement[0], values or {})


def parse_function(text: str, values: Mapping[str, Any] | None = None) -> FunctionSpec:
    """Parse one function: `f(x: float32) -> (float32): y = Neg(x); return y`.

    Raises:
        SpecError: the text is not of this form.
    """
    values = values or {}
    try:
        definition = ast.parse("def " + text.strip()).body[0]
    except SyntaxError as error:
        raise SpecError(f"{text!r} is not a function: {error}") from error
    if not isinstance(definition, ast.FunctionDef) or definition.returns is None:
        raise SpecError(f"{text!r} is not a function with a result type")
    last = definition.body[-1]
    if not isinstance(last, ast.Return):
        raise SpecError(f"{text!r} does not end with a return")
    returned = [] if last.value is None else _items(last.value)
    return FunctionSpec(
        name=definition.name,
        arguments=tuple((a.arg, _type_name(a.annotation, values)) for a in definition.args.args),
        results=tuple(_type_name(item, values) for item in _items(definition.returns)),
        nodes=tuple(_node(statement, values) for statement in definition.body[:-1]),
        returns=tuple(_source(item) for item in returned),
    )


def _items(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def _type_name(node: ast.expr | None, values: Mapping[str, Any]) -> str:
    if not isinstance(node, ast.Name):
        actual = "missing" if node is None else repr(ast.unparse(node))
        raise SpecError(f"The type of an argument or result is {actual}, expected a dtype's name")
    return str(values.get(node.id, node.id))


def _node(statement: ast.stmt, values: Mapping[str, Any]) -> NodeSpec:
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        raise _not_a_node(statement)
    op, call = _call(statement)
    keywords = {str(keyword.arg): keyword.value for keyword in call.keywords}
    after = keywords.pop("after", ast.List([]))
    if not isinstance(after, ast.List):
        raise SpecError("`after` is a list of nodes")
    return NodeSpec(
        name=statement.targets[0].id,
        op=op,
        inputs=tuple(_input(item) for item in call.args),
        attrs={key: _attr(value, values) for key, value in keywords.items()},
        after=tuple(_source(item).node for item in after.elts),
    )


def _call(statement: ast.Assign) -> tuple[str, ast.Call]:
    """Return the op and the call of a node; Python reads `Mine>Op(x)` as a comparison."""
    value = statement.value
    parts = [value.left, *value.comparators] if isinstance(value, ast.Compare) else [value]
    *names, call = parts
    if isinstance(value, ast.Compare) and not all(isinstance(op, ast.Gt) for op in value.ops):
        raise _not_a_node(statement)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise _not_a_node(statement)
    if not all(isinstance(name, ast.Name) for name in names):
        raise _not_a_node(statement)
    return ">".join(
        [*(name.id for name in names if isinstance(name, ast.Name)), call.func.id]
    ), call


def _not_a_node(statement: ast.stmt) -> SpecError:
    return SpecError(f"{ast.unparse(statement)!r} is not `name = Op(...)`")


def _input(node: ast.expr) -> Source | tuple[Source, ...]:
    if isinstance(node, ast.List):
        return tuple(_source(item) for item in node.elts)
    return _source(node)


def _source(node: ast.expr) -> Source:
    if isinstance(node, ast.Name):
        return Source(node.id)
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, int)
    ):
        return Source(node.value.id, node.slice.value)
    raise SpecError(f"{ast.unparse(node)!r} is not a node's output; write `node` or `node[1]`")


def _attr(node: ast.expr, values: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return values.get(node.id, node.id)
    if isinstance(node, ast.List):
        return [_attr(item, values) for item in node.elts]
    return literal(ast.unparse(node))
