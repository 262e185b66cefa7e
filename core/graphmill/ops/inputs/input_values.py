"""Convert inputs of ops from users: tensors, values, and lists that mix both.

Semantics: _ExtractInputsAndAttrs in tensorflow/python/framework/op_def_library.py, with an
additional step: tensors determine types before values do, so the order of inputs does not matter in
`mul(2, x)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.ops.inputs.default_graph import SymbolicTensor
from graphmill.ops.inputs.values import is_weak, natural_dtype, to_array

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.ops.definition.op_def import ArgDef, OpDef
    from graphmill.ops.inputs.default_graph import GraphLike

_MAX_RANK = 64  # limit of NumPy; more deeply nested lists are not tensors

# If several Python numbers share a type attr, the last of these types among theirs wins.
_WEAK_ORDER = (dtypes.bool, dtypes.int32, dtypes.int64, dtypes.uint64, dtypes.float32)


class InputPlan:
    """The inputs of an op, checked and typed, before nodes are added to a graph.

    Attributes:
        graph: the graph of the tensors; None if there are only values.
        types: for each input its element type, or the types of a list.
    """

    __slots__ = ("_args", "_items", "graph", "types")

    def __init__(self, args: Sequence[ArgDef], items: list[list[_Item]]) -> None:
        self._args = args
        self._items = items
        self.graph = _common_graph(items)
        self.types: list[DType | list[DType]] = [
            [item.dtype for item in group] if arg.is_list else group[0].dtype
            for arg, group in zip(args, items, strict=True)
        ]

    def make(self, graph: GraphLike) -> list[SymbolicTensor]:
        """Return the flat input tensors, adding nodes for values to the graph."""
        return [
            item.make(graph, f"{arg.name}_{position}" if arg.is_list else arg.name)
            for arg, group in zip(self._args, self._items, strict=True)
            for position, item in enumerate(group)
        ]


def plan_inputs(op_def: OpDef, inputs: Sequence[Any]) -> InputPlan:
    """Determine the element type of every input of an op.

    Args:
        op_def: the op.
        inputs: one for each of its inputs, a list for a list input.

    Raises:
        InvalidArgumentError: an input is not a tensor or has a wrong type, or the inputs belong to
            several graphs.
    """
    groups = [
        [_Item(item) for item in _as_list(op_def, arg, value)]
        for arg, value in zip(op_def.input_args, inputs, strict=True)
    ]
    bound = _bind_types(op_def, groups)
    for arg, group in zip(op_def.input_args, groups, strict=True):
        for item in group:
            try:
                item.settle(arg.type or bound.get(arg.type_attr), arg.is_ref)
            except InvalidArgumentError as error:
                raise InvalidArgumentError(
                    f"op {op_def.name}, input {arg.name!r}: {error.message}", op_type=op_def.name
                ) from None
    return InputPlan(op_def.input_args, groups)


def _as_list(op_def: OpDef, arg: ArgDef, value: Any) -> list[Any]:
    if not arg.is_list:
        return [value]
    if isinstance(value, (SymbolicTensor, str, bytes)) or not isinstance(value, Sequence):
        raise InvalidArgumentError(
            f"op {op_def.name}, input {arg.name!r}: expected a list of tensors, got "
            f"{type(value).__name__}",
            op_type=op_def.name,
        )
    return list(value)


def _bind_types(op_def: OpDef, groups: list[list[_Item]]) -> dict[str, DType]:
    """Return the value of each type attr: from its tensors, else its arrays, else its numbers."""
    bound: dict[str, DType] = {}
    weak: dict[str, list[_Item]] = {}
    for is_strong in (lambda item: item.is_tensor, lambda item: not item.is_weak):
        for arg, group in zip(op_def.input_args, groups, strict=True):
            for item in group if arg.type_attr else ():
                if is_strong(item):
                    bound.setdefault(arg.type_attr, item.natural().base_dtype)
                elif item.is_weak:
                    weak.setdefault(arg.type_attr, []).append(item)
    for name, items in weak.items():
        if name not in bound:
            default = op_def.attr(name).default if op_def.attr(name).has_default else None
            bound[name] = _weak_type(items, default)
    return bound


def _weak_type(items: list[_Item], default: DType | None) -> DType:
    """Return the type of numbers without tensors or arrays: the default if all of them fit."""
    natural = [item.natural() for item in items]
    if default is not None and all(item.fits(default) for item in items):
        return default
    if all(dtype in _WEAK_ORDER for dtype in natural):
        return max(natural, key=_WEAK_ORDER.index)
    return natural[0]


class _Item:
    """One input tensor: a tensor, a value, or a list that contains tensors and will be packed."""

    __slots__ = ("array", "dtype", "parts", "source")

    dtype: DType
    array: Any

    def __init__(self, source: Any, depth: int = 0) -> None:
        self.source = source
        self.array = None
        self.parts: list[_Item] | None = None
        if isinstance(source, (list, tuple)) and holds_tensor(source):
            if depth > _MAX_RANK:
                raise InvalidArgumentError(
                    f"a list nested more than {_MAX_RANK} deep is not a tensor"
                )
            self.parts = [_Item(part, depth + 1) for part in source]

    @property
    def is_tensor(self) -> bool:
        """Whether a tensor determines the type."""
        return self.parts is not None or isinstance(self.source, SymbolicTensor)

    @property
    def is_weak(self) -> bool:
        """Whether it adopts the type of the other inputs."""
        return not self.is_tensor and is_weak(self.source)

    def natural(self) -> DType:
        """Return its type independent of other inputs."""
        if isinstance(self.source, SymbolicTensor):
            return self.source.dtype
        if self.parts is not None:
            return next(part.natural().base_dtype for part in self.parts if part.is_tensor)
        return natural_dtype(self.source)

    def fits(self, dtype: DType) -> bool:
        """Return whether the value can be converted to the type."""
        try:
            to_array(self.source, dtype)
        except InvalidArgumentError:
            return False
        return True

    def settle(self, dtype: DType | None, is_ref: bool) -> None:
        """Set the element type to `dtype` or the natural one; a tensor keeps its type."""
        if isinstance(self.source, SymbolicTensor):
            self.dtype = self.source.dtype
        elif is_ref:
            raise InvalidArgumentError(
                f"expected a reference to a variable, got {type(self.source).__name__}"
            )
        elif self.parts is not None:
            self.dtype = dtype or self.natural()
            for part in self.parts:
                part.settle(self.dtype, is_ref=False)
        else:
            self.array, self.dtype = to_array(self.source, dtype)

    def make(self, graph: GraphLike, name: str) -> SymbolicTensor:
        """Return the tensor, adding a Const or Pack node for a value or list."""
        if isinstance(self.source, SymbolicTensor):
            return self.source
        if self.parts is None:
            return graph.constant(self.array, self.dtype, name=name)
        with graph.name_scope(name) as scope:
            parts = [part.make(graph, str(i)) for i, part in enumerate(self.parts)]
            node = graph.create_op("Pack", parts, {"axis": 0}, name=scope)
        packed: SymbolicTensor = graph.outputs_of(node)[0]
        return packed


def holds_tensor(values: Any) -> bool:
    """Return whether nested lists or tuples contain a tensor, or are one."""
    stack = [values]
    while stack:
        item = stack.pop()
        if isinstance(item, SymbolicTensor):
            return True
        if isinstance(item, (list, tuple)):
            stack.extend(item)
    return False


def _common_graph(groups: list[list[_Item]]) -> GraphLike | None:
    common: GraphLike | None = None
    stack = [item for group in groups for item in group]
    while stack:
        item = stack.pop()
        stack.extend(item.parts or ())
        if isinstance(item.source, SymbolicTensor):
            graph = item.source.graph
            if common is not None and graph is not common:
                raise InvalidArgumentError(
                    f"inputs belong to several graphs: {item.source!r} is not in the same graph as "
                    "the others"
                )
            common = graph
    return common
