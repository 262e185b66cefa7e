"""Read annotations of functions that define ops, as objects or as text (`from __future__`)."""

from __future__ import annotations

import ast
import re
import typing
from dataclasses import dataclass
from typing import Any, Final

from graphmill.dtypes import DType, as_dtype
from graphmill.errors import InvalidArgumentError

if typing.TYPE_CHECKING:
    from collections.abc import Mapping

_LISTS: Final = ("list", "List", "Sequence")
_TYPE_VARIABLE: Final = re.compile(r"[A-Z]\w*", re.ASCII)
_NO_TENSOR: Final = ("Any", "Array", "ArrayLike", "NDArray", "ndarray", "Tensor", "Value", "object")

_ATTR_TYPES: Final = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "string",
    "bytes": "string",
    "DType": "type",
    "dtype": "type",
    "Shape": "shape",
    "ShapeAttr": "shape",
    "FuncAttr": "func",
    "ndarray": "tensor",
    "TensorAttr": "tensor",
}


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotation: a name, optionally with arguments in brackets.

    Attributes:
        name: the last part of the name: "list", "T", "float32".
        parts: the arguments in brackets.
        constraints: the element types of a type variable with constraints.
    """

    name: str
    parts: tuple[Annotation, ...] = ()
    constraints: tuple[DType, ...] = ()

    @property
    def is_list(self) -> bool:
        """Whether it is a list type with an element type."""
        return self.name in _LISTS and len(self.parts) == 1

    def __str__(self) -> str:
        return self.name + (f"[{', '.join(map(str, self.parts))}]" if self.parts else "")


def read_annotation(annotation: Any, namespace: Mapping[str, Any]) -> Annotation:
    """Read an annotation.

    Args:
        annotation: the object or its text.
        namespace: globals in which to look up type variables.

    Raises:
        InvalidArgumentError: ops do not support the annotation.
    """
    if annotation is None or annotation is type(None):
        return Annotation("None")
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        try:
            tree = ast.parse(annotation.strip(), mode="eval").body
        except SyntaxError:
            raise InvalidArgumentError(f"annotation {annotation!r} is not an expression") from None
        return _from_tree(tree, namespace)
    if isinstance(annotation, typing.TypeVar):
        constraints = tuple(map(as_dtype, annotation.__constraints__))
        return Annotation(annotation.__name__, constraints=constraints)
    if isinstance(annotation, DType):
        return Annotation(annotation.name)
    if hasattr(annotation, "__metadata__"):  # typing.Annotated: use the metadata, not the type
        return read_annotation(annotation.__metadata__[0], namespace)
    origin = typing.get_origin(annotation)
    if origin is not None:
        parts = [part for part in typing.get_args(annotation) if part is not Ellipsis]
        return Annotation(origin.__name__, tuple(read_annotation(p, namespace) for p in parts))
    return Annotation(getattr(annotation, "__name__", None) or str(annotation))


def attr_type(annotation: Annotation) -> str | None:
    """Return the attr type that an annotation stands for; None if there is none."""
    if annotation.is_list or (annotation.name == "tuple" and len(annotation.parts) == 1):
        element = attr_type(annotation.parts[0])
        return None if element is None or element.startswith("list(") else f"list({element})"
    return None if annotation.parts else _ATTR_TYPES.get(annotation.name)


def fixed_type(annotation: Annotation) -> DType | None:
    """Return the element type that an annotation names; None for a type variable.

    Raises:
        InvalidArgumentError: the annotation is neither.
    """
    if annotation.name in _NO_TENSOR:
        raise InvalidArgumentError(
            f"{annotation} is not an element type; annotate with a type variable such as T, or "
            "with an element type such as 'float32'"
        )
    if _TYPE_VARIABLE.fullmatch(annotation.name) and not annotation.name.startswith("DT_"):
        return None
    return as_dtype(_PYTHON_TYPES.get(annotation.name, annotation.name))


_PYTHON_TYPES: Final = {"bool": bool, "int": int, "float": float, "complex": complex}


def _from_tree(tree: ast.expr, namespace: Mapping[str, Any]) -> Annotation:
    if isinstance(tree, ast.Constant) and tree.value is None:
        return Annotation("None")
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        return read_annotation(tree.value, namespace)
    if isinstance(tree, ast.Name):
        value = namespace.get(tree.id)
        if isinstance(value, (typing.TypeVar, DType)):
            return read_annotation(value, namespace)
        return Annotation(tree.id)
    if isinstance(tree, ast.Attribute):
        return Annotation(tree.attr)
    if isinstance(tree, ast.Subscript):
        outer = _from_tree(tree.value, namespace)
        inner = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        parts = [part for part in inner if not _is_ellipsis(part)]
        if outer.name == "Annotated":
            return _from_tree(parts[1], namespace)
        return Annotation(outer.name, tuple(_from_tree(part, namespace) for part in parts))
    raise InvalidArgumentError(f"ops do not support the annotation {ast.unparse(tree)!r}")


def _is_ellipsis(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Constant) and tree.value is Ellipsis
