"""A chain of unary functions, as TensorFlow's optimizer fuses them.

Semantics: tensorflow/core/kernels/unary_ops_composition.cc.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels.math.elementwise import round_, rsqrt, sigmoid
from graphmill_plugins.kernels.nn.activation import elu, relu, relu6, selu

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphmill.spi import ArrayNamespace, Value

    Function = Callable[[Value], Value]

_ANY_FLOAT_FUNCTIONS: Final = {
    "Abs": "abs",
    "Ceil": "ceil",
    "Cos": "cos",
    "Exp": "exp",
    "Expm1": "expm1",
    "Floor": "floor",
    "Inv": "reciprocal",
    "Log": "log",
    "Log1p": "log1p",
    "Neg": "negative",
    "Reciprocal": "reciprocal",
    "Sin": "sin",
    "Sqrt": "sqrt",
    "Square": "square",
    "Tanh": "tanh",
}
_WIDE_FLOAT_FUNCTIONS: Final = {
    "Acos": "arccos",
    "Acosh": "arccosh",
    "Asin": "arcsin",
    "Asinh": "arcsinh",
    "Atan": "arctan",
    "Atanh": "arctanh",
    "Cosh": "cosh",
    "Rint": "rint",
    "Sinh": "sinh",
    "Tan": "tan",
}
_ACTIVATIONS: Final[Mapping[str, Callable[..., Value]]] = {
    "Elu": elu,
    "Relu": relu,
    "Relu6": relu6,
    "Selu": selu,
}
_TYPED_FUNCTIONS: Final[Mapping[str, Callable[[ArrayNamespace, np.dtype[Any]], Function]]] = {
    "Round": round_,
    "Rsqrt": rsqrt,
    "Sigmoid": sigmoid,
}


def _function(xp: ArrayNamespace, T: np.dtype[Any], op: str) -> Function:
    if op in _ACTIVATIONS:
        return partial(_ACTIVATIONS[op], xp)
    if op in _TYPED_FUNCTIONS:
        return _TYPED_FUNCTIONS[op](xp, T)
    name = _ANY_FLOAT_FUNCTIONS.get(op) or (
        _WIDE_FLOAT_FUNCTIONS.get(op) if np.float16 != T else None
    )
    if name is None:
        raise InvalidArgumentError(
            f"Do not have a compute function registered for op: {op} ({T.name})"
        )
    function: Function = getattr(xp, name)
    return function


@kernel(
    "_UnaryOpsComposition",
    types={"T": (dtypes.float16, dtypes.float32, dtypes.float64)},
    make=True,
)
def unary_ops_composition(
    xp: ArrayNamespace, T: np.dtype[Any], op_names: Sequence[str]
) -> Function:
    """Apply functions one after another.

    Raises:
        InvalidArgumentError: there is no function, or one that cannot be fused.
    """
    if not op_names:
        raise InvalidArgumentError("Unary op composition must have at least one op")
    functions = [_function(xp, T, op) for op in op_names]

    def run(x: Value) -> Value:
        for function in functions:
            x = function(x)
        return x

    return run
