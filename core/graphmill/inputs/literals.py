"""Evaluate literals and `np.…` array constructors that a user types, and nothing else.

`saved_model_cli --input_exprs` passes its argument to `eval`. This module parses the expression
with `ast` and evaluates only these forms, so an untrusted value cannot do harm: numbers, strings,
bytes, lists, tuples, dicts, `true false null` as in JSON, arithmetic, array constructors from a
fixed list, a few array methods, and subscripts.
"""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError, OpError, ResourceExhaustedError, suggest

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_EXPONENT = 1024
_MAX_DEPTH = 100

_NAMES: dict[str, Any] = {
    "true": True, "false": False, "null": None, "nan": np.nan, "inf": np.inf,
    "float": float, "int": int, "bool": bool, "str": str, "bytes": bytes,
}  # fmt: skip

_CONSTANTS = ("pi", "e", "inf", "nan", "newaxis")
_DTYPES = (
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
    "uint32", "uint64", "bool_", "complex64", "complex128", "bytes_", "str_", "object_",
)  # fmt: skip
_FUNCTIONS = (
    "abs", "arange", "array", "asarray", "concatenate", "cos", "diag", "exp", "expand_dims", "eye",
    "full", "identity", "linspace", "log", "logspace", "ones", "repeat", "reshape", "sin", "sqrt",
    "squeeze", "stack", "tile", "transpose", "tri", "zeros",
)  # fmt: skip
_RANDOM = (
    "normal", "permutation", "rand", "randint", "randn", "random", "random_sample", "uniform",
    "standard_normal",
)  # fmt: skip
_METHODS = ("astype", "reshape", "transpose", "copy", "flatten", "ravel", "squeeze", "repeat")

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
}


def evaluate(text: str) -> Any:
    """Return the value of an expression: a Python value or a NumPy array.

    Raises:
        InvalidArgumentError: the expression is not of an allowed form.
        ResourceExhaustedError: its value does not fit in memory.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "it cannot be parsed"
        raise InvalidArgumentError(f"{_short(text)} is not a value: {reason}") from error
    try:
        return _Evaluator(text).visit(tree.body)
    except (TypeError, ValueError, IndexError, ArithmeticError) as error:
        raise InvalidArgumentError(f"{_short(text)} has no value: {error}") from error
    except MemoryError as error:
        raise ResourceExhaustedError(f"{_short(text)} does not fit in memory") from error


def _short(text: str) -> str:
    """Return the text in quotes, shortened for a message."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


class _Evaluator:
    """Compute the value of one parsed expression; refuse node types without a method."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0

    def visit(self, node: ast.expr) -> Any:
        """Return the value of a node."""
        method = getattr(self, f"_visit_{type(node).__name__.lower()}", None)
        if method is None:
            raise self._refused(f"{type(node).__name__} is not allowed here")
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._refused(f"it is nested deeper than {_MAX_DEPTH} levels")
        value = method(node)
        self._depth -= 1
        return value

    def _refused(self, why: str) -> OpError:
        error = InvalidArgumentError(f"{_short(self._text)} is not an accepted value: {why}")
        error.add_note("try: a literal such as 3.5, [1, 2] or 'text', or np.ones((1, 3))")
        return error

    def _visit_constant(self, node: ast.Constant) -> Any:
        if node.value is Ellipsis:
            raise self._refused("'...' is allowed only in subscripts")
        return node.value

    def _visit_name(self, node: ast.Name) -> Any:
        if node.id not in _NAMES:
            raise self._refused(f"the name {node.id!r} is unknown{suggest(node.id, _NAMES)}")
        return _NAMES[node.id]

    def _visit_list(self, node: ast.List) -> list[Any]:
        return [self.visit(item) for item in node.elts]

    def _visit_dict(self, node: ast.Dict) -> dict[Any, Any]:
        if any(key is None for key in node.keys):
            raise self._refused("'**' is not allowed")
        keys = [self.visit(key) for key in node.keys if key is not None]
        if not all(isinstance(key, str) for key in keys):
            raise self._refused("the keys of a dict must be strings")
        return dict(zip(keys, map(self.visit, node.values), strict=True))

    def _visit_tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self.visit(item) for item in node.elts)

    def _visit_unaryop(self, node: ast.UnaryOp) -> Any:
        apply = _UNARY.get(type(node.op))
        if apply is None:
            raise self._refused(f"the operator {type(node.op).__name__} is not allowed")
        return apply(self.visit(node.operand))

    def _visit_binop(self, node: ast.BinOp) -> Any:
        apply = _BINARY.get(type(node.op))
        if apply is None:
            raise self._refused(f"the operator {type(node.op).__name__} is not allowed")
        left, right = self.visit(node.left), self.visit(node.right)
        for operand in (left, right):
            if not isinstance(operand, (int, float, complex, np.ndarray, np.generic)):
                raise self._refused("arithmetic is for numbers and arrays")
        if isinstance(node.op, ast.Pow) and np.any(np.abs(np.asarray(right)) > _MAX_EXPONENT):
            raise self._refused(f"exponents may be at most {_MAX_EXPONENT}")
        return apply(left, right)

    def _visit_attribute(self, node: ast.Attribute) -> Any:
        path = _dotted(node)
        if path is not None and path[0] in {"np", "numpy"}:
            return self._from_numpy(path[1:])
        if node.attr == "T":
            return np.transpose(self.visit(node.value))
        raise self._refused(f"the attribute {node.attr!r} is not allowed")

    def _from_numpy(self, path: list[str]) -> Any:
        if len(path) == 2 and path[0] == "random" and path[1] in _RANDOM:
            return getattr(np.random, path[1])
        if len(path) == 1 and path[0] in _CONSTANTS + _DTYPES + _FUNCTIONS:
            return getattr(np, path[0])
        allowed = [*_CONSTANTS, *_DTYPES, *_FUNCTIONS, *(f"random.{name}" for name in _RANDOM)]
        name = ".".join(path)
        raise self._refused(f"np.{name} is not allowed{suggest(name, allowed)}")

    def _visit_call(self, node: ast.Call) -> Any:
        function = self._callee(node.func)
        arguments = [self.visit(argument) for argument in node.args]
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in {"out", "like", "object"}:
                raise self._refused("'**' and the keywords out, like and object are not allowed")
            keywords[keyword.arg] = self.visit(keyword.value)
        return function(*arguments, **keywords)

    def _callee(self, node: ast.expr) -> Callable[..., Any]:
        path = _dotted(node)
        if path is not None and path[0] in {"np", "numpy"}:
            function = self._from_numpy(path[1:])
        elif isinstance(node, ast.Attribute) and node.attr in _METHODS:
            owner = self.visit(node.value)
            if not isinstance(owner, (np.ndarray, np.generic)):
                raise self._refused(f".{node.attr}() is a method of arrays")
            function = getattr(owner, node.attr)
        elif isinstance(node, ast.Name) and node.id in {"float", "int", "bool"}:
            function = _NAMES[node.id]
        else:
            raise self._refused("only constructors of arrays may be called")
        if not callable(function):
            raise self._refused(f"{ast.unparse(node)} cannot be called")
        return function  # type: ignore[no-any-return]

    def _visit_subscript(self, node: ast.Subscript) -> Any:
        owner = self.visit(node.value)
        return owner[self._index(node.slice)]

    def _index(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Slice):
            parts = (node.lower, node.upper, node.step)
            return slice(*(None if part is None else self.visit(part) for part in parts))
        if isinstance(node, ast.Tuple):
            return tuple(self._index(item) for item in node.elts)
        if isinstance(node, ast.Constant) and node.value is Ellipsis:
            return Ellipsis
        return self.visit(node)


def _dotted(node: ast.expr) -> list[str] | None:
    """Return `["np", "random", "rand"]` for `np.random.rand`; None if it is not a dotted name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return [node.id, *reversed(names)]
