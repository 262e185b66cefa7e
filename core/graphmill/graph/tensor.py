"""`Tensor`: an output of a node, with Python operators that add nodes.

Semantics of the operators: tensorflow/python/ops/math_ops.py and tensor_math_operator_overrides.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from graphmill import dtypes
from graphmill.deprecations import warn_renamed
from graphmill.errors import InvalidArgumentError, OpError
from graphmill.graph.default_session import session_for
from graphmill.graph.node import output_name
from graphmill.graph.slicing import strided_slice
from graphmill.ops import math
from graphmill.ops.inference.tensor_shape import checked_shape
from graphmill.ops.inputs.default_graph import SymbolicTensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from graphmill.dtypes import DType
    from graphmill.graph.builder import Graph
    from graphmill.graph.default_session import SessionLike
    from graphmill.graph.node import Node
    from graphmill.ops.inference.tensor_shape import TensorShape
    from graphmill.ops.inputs.arguments import ShapeLike, TensorLike

_SMALL_INTEGERS: Final = (dtypes.int8, dtypes.int16, dtypes.uint8, dtypes.uint16)


class Tensor(SymbolicTensor):
    """An output of a node in a graph; it has a value only when a session runs the graph.

    Operators add nodes: `+ - * / // % ** @`, comparisons `< <= > >=`, `& | ^ ~` (logical for bool,
    bitwise for integers), unary `-`, `abs`, and slicing as in NumPy. `==` and `!=` compare
    identity, as `tf.compat.v1` does, so that tensors can be keys of a `feed_dict`; for elementwise
    comparison use `graphmill.ops.math.equal`.

    Attributes:
        op: the node.
        value_index: index of the output.
    """

    __slots__ = ("op", "value_index")

    def __init__(self, op: Node, value_index: int = 0) -> None:
        """Refer to an output.

        Raises:
            InvalidArgumentError: the node has no such output.
        """
        if not 0 <= value_index < len(op.output_types):
            raise InvalidArgumentError(
                f"there is no output {value_index}; the node has {len(op.output_types)}",
                node=op.name,
                op_type=op.op,
            )
        self.op = op
        self.value_index = value_index

    @property
    def name(self) -> str:
        """Name of the tensor, `node:0`."""
        return output_name(self)

    @property
    def dtype(self) -> DType:
        """Element type; a reference type for the output of a ref variable."""
        return self.op.output_types[self.value_index]

    @property
    def shape(self) -> TensorShape:
        """Its static shape, inferred on demand.

        Raises:
            InvalidArgumentError: its node, or one that the node depends on, has invalid inputs.
        """
        return self.graph.shapes_of(self.op)[self.value_index]

    @property
    def ndim(self) -> int | None:
        """Its static rank, None if it is unknown."""
        return self.shape.rank

    def get_shape(self) -> TensorShape:
        """Return `shape`, under TensorFlow 1's name."""
        return self.shape

    def set_shape(self, shape: ShapeLike | int) -> None:
        """Declare what is known about its shape beyond what its node determines.

        Nodes that are added later infer their shapes from it, and sessions check feeds against it
        whose first step with that feed comes later. The graph's message does not contain it.

        Args:
            shape: its sizes, None for an unknown size; a number is the size of a vector; None
                declares nothing.

        Raises:
            InvalidValueError: the shape contradicts its present one, or is no shape.
        """
        self.graph.declare_shape(self, checked_shape(shape))

    def ref(self) -> TensorReference:
        """Return an object that stands for it in sets and dicts; `deref` returns the tensor."""
        return TensorReference(self)

    def eval(
        self, feed_dict: Mapping[Any, Any] | None = None, session: SessionLike | None = None
    ) -> Any:
        """Return its value as `session.run` does, by default in the default session.

        Raises:
            FailedPreconditionError: there is no session.
            OpError: as for `Session.run`.
        """
        return session_for(session, f"the tensor {self.name!r}").run(self, feed_dict)

    @property
    def graph(self) -> Graph:
        """The graph of its node."""
        return self.op.graph  # type: ignore[return-value]

    @property
    def device(self) -> str:
        """The requested device of its node."""
        return self.op.device

    def consumers(self) -> list[Node]:
        """Return the nodes that read it."""
        edges = [edge for edge in self.op.out_edges if edge.src_output == self.value_index]
        return list(dict.fromkeys(edge.dst for edge in edges))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tensor)
            and self.op is other.op
            and self.value_index == other.value_index
        )

    def __hash__(self) -> int:
        return hash((id(self.op), self.value_index))

    def __repr__(self) -> str:
        try:
            shape = str(self.shape)
        except OpError:  # the node, or one before it, has invalid inputs
            shape = "<invalid>"
        return f"<Tensor {self.name!r} shape={shape} dtype={self.dtype.name}>"

    def __bool__(self) -> NoReturn:
        raise self._no_value(
            "used as a bool",
            "select with graphmill.ops.math.select_v2, or run it in a session first",
        )

    def __iter__(self) -> NoReturn:
        raise self._no_value("iterated over", "slice it, or use graphmill.ops.array.unpack")

    def __len__(self) -> NoReturn:
        raise self._no_value("used with len()", "use graphmill.ops.array.shape")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise self._no_value("converted to a NumPy array", "run it: session.run(tensor)")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Add a node for an operator between an array and a tensor; refuse NumPy's functions."""
        operator = _OPERATORS.get(ufunc.__name__)
        out = kwargs.pop("out", (inputs[0],))  # for `array += tensor` the array, which stays as is
        if operator is None or method != "__call__" or kwargs or out[0] is not inputs[0]:
            from graphmill.tensorflow_names import hint

            more = hint(ufunc.__name__).removeprefix("; ") or "see graphmill.ops.math"
            raise self._no_value(f"passed to numpy.{ufunc.__name__}", more)
        left, right = inputs
        if isinstance(left, Tensor):
            return getattr(left, operator[0])(right)
        return getattr(right, operator[1])(left)

    def _no_value(self, what: str, hint: str) -> TypeError:
        return TypeError(
            f"{self!r} cannot be {what}: it has no value before a session runs it; {hint}"
        )

    def __getitem__(self, key: Any) -> Tensor:
        return strided_slice(self, key)

    def __add__(self, other: TensorLike) -> Tensor:
        return _add(self, other)

    def __radd__(self, other: TensorLike) -> Tensor:
        return _add(other, self)

    def __sub__(self, other: TensorLike) -> Tensor:
        return math.sub(self, other, name="sub")

    def __rsub__(self, other: TensorLike) -> Tensor:
        return math.sub(other, self, name="sub")

    def __mul__(self, other: TensorLike) -> Tensor:
        return math.mul(self, other, name="mul")

    def __rmul__(self, other: TensorLike) -> Tensor:
        return math.mul(other, self, name="mul")

    def __truediv__(self, other: TensorLike) -> Tensor:
        return _true_divide(self, other, self)

    def __rtruediv__(self, other: TensorLike) -> Tensor:
        return _true_divide(other, self, self)

    def __floordiv__(self, other: TensorLike) -> Tensor:
        return math.floor_div(self, other, name="floordiv")

    def __rfloordiv__(self, other: TensorLike) -> Tensor:
        return math.floor_div(other, self, name="floordiv")

    def __mod__(self, other: TensorLike) -> Tensor:
        return math.floor_mod(self, other, name="mod")

    def __rmod__(self, other: TensorLike) -> Tensor:
        return math.floor_mod(other, self, name="mod")

    def __pow__(self, other: TensorLike) -> Tensor:
        return math.pow(self, other, name="pow")

    def __rpow__(self, other: TensorLike) -> Tensor:
        return math.pow(other, self, name="pow")

    def __matmul__(self, other: TensorLike) -> Tensor:
        return math.batch_mat_mul_v2(self, other, name="matmul")

    def __rmatmul__(self, other: TensorLike) -> Tensor:
        return math.batch_mat_mul_v2(other, self, name="matmul")

    def __lt__(self, other: TensorLike) -> Tensor:
        return math.less(self, other)

    def __le__(self, other: TensorLike) -> Tensor:
        return math.less_equal(self, other)

    def __gt__(self, other: TensorLike) -> Tensor:
        return math.greater(self, other)

    def __ge__(self, other: TensorLike) -> Tensor:
        return math.greater_equal(self, other)

    def __and__(self, other: TensorLike) -> Tensor:
        if self.dtype.base_dtype.is_bool:
            return math.logical_and(self, other, name="and")
        with self.graph.name_scope("and"):
            return math.bitwise_and(self, other)

    __rand__ = __and__

    def __or__(self, other: TensorLike) -> Tensor:
        if self.dtype.base_dtype.is_bool:
            return math.logical_or(self, other, name="or")
        with self.graph.name_scope("or"):
            return math.bitwise_or(self, other)

    __ror__ = __or__

    def __xor__(self, other: TensorLike) -> Tensor:
        if self.dtype.base_dtype.is_bool:
            return math.not_equal(self, other, name="xor")
        with self.graph.name_scope("xor"):
            return math.bitwise_xor(self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Tensor:
        return (math.logical_not if self.dtype.base_dtype.is_bool else math.invert)(self)

    def __neg__(self) -> Tensor:
        return math.neg(self)

    def __abs__(self) -> Tensor:
        dtype = self.dtype.base_dtype
        if dtype.is_complex:
            real = dtypes.float32 if dtype is dtypes.complex64 else dtypes.float64
            return math.complex_abs(self, Tout=real, name="Abs")
        return math.abs(self)


class TensorReference:
    """What `Tensor.ref` returns: two are equal if they stand for one tensor."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def deref(self) -> Tensor:
        """Return the tensor."""
        return self._tensor

    def __eq__(self, other: object) -> bool:
        if other is None:
            return False
        if not isinstance(other, TensorReference):
            raise TypeError("Cannot compare wrapped object with unwrapped object")
        return self._tensor == other.deref()

    def __hash__(self) -> int:
        return hash(self._tensor)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._tensor!r}>"


class InputTensor(Tensor):
    """An input of a node; for one version it can still be unpacked to its node and output index."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        warn_renamed("Node.inputs, as pairs of node and output index,", "Node.sources")
        return iter((self.op, self.value_index))


_OPERATORS: Final = {
    "add": ("__add__", "__radd__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__rmul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "true_divide": ("__truediv__", "__rtruediv__"),
    "floor_divide": ("__floordiv__", "__rfloordiv__"),
    "remainder": ("__mod__", "__rmod__"),
    "power": ("__pow__", "__rpow__"),
    "matmul": ("__matmul__", "__rmatmul__"),
    "less": ("__lt__", "__gt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater": ("__gt__", "__lt__"),
    "greater_equal": ("__ge__", "__le__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
    "bitwise_and": ("__and__", "__rand__"),
    "bitwise_or": ("__or__", "__ror__"),
    "bitwise_xor": ("__xor__", "__rxor__"),
}
"""The methods for the operator of each NumPy function, with the tensor on the left or right.

`array + tensor` calls `numpy.add`, which asks the tensor.
"""


def _add(left: TensorLike, right: TensorLike) -> Tensor:
    tensor = left if isinstance(left, Tensor) else right
    is_string = isinstance(tensor, Tensor) and tensor.dtype.base_dtype is dtypes.string
    return (math.add if is_string else math.add_v2)(left, right, name="add")


def _true_divide(left: TensorLike, right: TensorLike, tensor: Tensor) -> Tensor:
    """Divide; integers are first converted to a float type that is wide enough."""
    dtype = tensor.dtype.base_dtype
    if not dtype.is_integer:
        return math.real_div(left, right, name="truediv")
    wide = dtypes.float32 if dtype in _SMALL_INTEGERS else dtypes.float64
    graph = tensor.graph
    with graph.name_scope("truediv") as scope:
        x, y = graph.convert(left, dtype, "x"), graph.convert(right, dtype, "y")
        floats = [math.cast(part, DstT=wide) for part in (x, y)]
        return math.real_div(*floats, name=scope)
