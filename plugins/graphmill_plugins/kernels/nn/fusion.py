"""The steps after the convolution or matrix product in fused ops of TensorFlow's optimizer.

The attr `fused_ops` lists the ops: first `BiasAdd` or `FusedBatchNorm`, which take the additional
inputs, then perhaps `Add` with one more input, and perhaps an activation.

Semantics: tensorflow/core/kernels/fused_eigen_output_kernels.h.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill_plugins._lazy_jax import lax
from graphmill_plugins.kernels._support import accumulator, in_float32, is_numpy, shape_text
from graphmill_plugins.kernels.math.elementwise import sigmoid
from graphmill_plugins.kernels.math.special import erf as numpy_erf
from graphmill_plugins.kernels.nn.activation import elu, leaky_relu, relu, relu6

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphmill.spi import ArrayNamespace, Value

    Function = Callable[[Value], Value]

_BIAS: Final = "BiasAdd"
_NORM: Final = "FusedBatchNorm"
_SIDE: Final = "Add"
_NORM_INPUTS: Final = ("scale", "offset", "estimated_mean", "estimated_variance")


class Fusion(NamedTuple):
    """The steps after a product, applied to values with the channels last.

    Attributes:
        inputs: the names of the additional inputs that are vectors over the channels.
        takes_side_input: whether one more input is added.
        epsilon: what a batch normalization adds to the variance.
        activate: the activation.
    """

    xp: ArrayNamespace
    inputs: tuple[str, ...]
    takes_side_input: bool
    epsilon: float
    activate: Function | None

    def check(self, name: str, count: int) -> None:
        """Raise InvalidArgumentError unless an op has the number of additional inputs."""
        expected = [*self.inputs, *["side_input"] * self.takes_side_input]
        if count != len(expected):
            raise InvalidArgumentError(
                f"{name} must have {len(expected)} extra arguments ({', '.join(expected)}), "
                f"got {count}"
            )

    def apply(self, product: Value, args: Sequence[Value]) -> Value:
        """Return the result for a product with the channels last.

        Raises:
            InvalidArgumentError: an additional input does not fit the product.
        """
        vectors = args[: len(self.inputs)]
        for name, vector in zip(self.inputs, vectors, strict=True):
            if vector.ndim != 1 or vector.shape[0] != product.shape[-1]:
                raise InvalidArgumentError(
                    f"{name} must be a vector of {product.shape[-1]} elements, got shape "
                    f"{shape_text(vector.shape)}"
                )
        out = product + vectors[0] if len(vectors) == 1 else self._normalize(product, *vectors)
        if self.takes_side_input:
            out = self._add(out, args[-1])
        return out if self.activate is None else self.activate(out)

    def _normalize(
        self, x: Value, scale: Value, offset: Value, mean: Value, variance: Value
    ) -> Value:
        factor = scale / self.xp.sqrt(variance + self.epsilon)
        return (x - mean) * factor + offset

    def _add(self, x: Value, side: Value) -> Value:
        if x.shape != side.shape:
            raise InvalidArgumentError(
                f"side_input must have the shape {shape_text(x.shape)}, got "
                f"{shape_text(side.shape)}"
            )
        return x + side


def make_fusion(
    xp: ArrayNamespace, name: str, T: np.dtype[Any], attrs: Mapping[str, Any]
) -> Fusion:
    """Return the fusion of a node.

    Args:
        xp: the array namespace.
        name: the name of the product, for messages.
        T: the element type.
        attrs: the attrs of the node.

    Raises:
        InvalidArgumentError: nothing is fused, or the number of additional inputs or the type of
            one is wrong.
        UnimplementedError: there is no such fusion.
    """
    fused = tuple(attrs["fused_ops"])
    if not fused:
        raise InvalidArgumentError(f"{name} must have at least one fused op.")
    first, *rest = fused
    takes_side_input = rest[:1] == [_SIDE] and first == _BIAS
    rest = rest[takes_side_input:]
    if first not in (_BIAS, _NORM) or len(rest) > 1 or not ACTIVATIONS.issuperset(rest):
        raise UnimplementedError(f"Fusion is not implemented: [{','.join(fused)}]")
    fusion = Fusion(
        xp,
        ("bias",) if first == _BIAS else _NORM_INPUTS,
        takes_side_input,
        attrs["epsilon"],
        activation(xp, rest[0], T, attrs["leakyrelu_alpha"]) if rest else None,
    )
    fusion.check(f"{name} with {first}", attrs["num_args"])
    _check_types(name, T, attrs.get("TArgs", ()))
    return fusion


def _check_types(name: str, T: np.dtype[Any], types: Sequence[Any]) -> None:
    """Check that the additional inputs have the type of the product.

    Raises:
        InvalidArgumentError: one has another type.
    """
    for index, dtype in enumerate(map(dtypes.as_dtype, types)):
        if dtype is not dtypes.as_dtype(T):
            raise InvalidArgumentError(
                f"{name}: args[{index}] has the type {dtype.name}, the product "
                f"{dtypes.as_dtype(T).name}; cast one of them"
            )


def _gelu_approximate(xp: ArrayNamespace, T: np.dtype[Any]) -> Function:
    factor = float(np.sqrt(2 / np.pi))
    return in_float32(T, lambda x: 0.5 * x * (1 + xp.tanh(factor * (x + 0.044715 * x * x * x))))


def _gelu_exact(xp: ArrayNamespace, T: np.dtype[Any]) -> Function:
    wide = accumulator(T)
    erf: Function = numpy_erf(wide) if is_numpy(xp) else lax.erf
    factor = float(np.sqrt(0.5))
    return in_float32(T, lambda x: 0.5 * x * (1 + erf(factor * x)))


_PLAIN: Final[Mapping[str, Callable[..., Value]]] = {"Relu": relu, "Relu6": relu6, "Elu": elu}
_OF_TYPE: Final[Mapping[str, Callable[[ArrayNamespace, np.dtype[Any]], Function]]] = {
    "Tanh": lambda xp, T: in_float32(T, xp.tanh),
    "Sigmoid": sigmoid,
    "GeluApproximate": _gelu_approximate,
    "GeluExact": _gelu_exact,
}
ACTIVATIONS: Final = {"LeakyRelu", *_PLAIN, *_OF_TYPE}
"""The names of activations."""


def activation(xp: ArrayNamespace, name: str, T: np.dtype[Any], alpha: float) -> Function:
    """Return an activation of `ACTIVATIONS` for an element type; `alpha` is that of LeakyRelu."""
    if name == "LeakyRelu":
        leaky: Function = leaky_relu(xp, alpha, T)
        return leaky
    return partial(_PLAIN[name], xp) if name in _PLAIN else _OF_TYPE[name](xp, T)
