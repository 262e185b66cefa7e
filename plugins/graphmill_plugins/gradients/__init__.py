"""Register the gradient functions of TensorFlow's ops, by family.

A family's module is imported when the first op of the family is differentiated. JAX differentiates
ops without a gradient function, if their kernels can be traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.spi import hookimpl

if TYPE_CHECKING:
    from graphmill.spi import GradientRegistrar

_MODULES: dict[str, tuple[str, ...]] = {
    "array": ("array.index", "array.shape", "constants"),
    "control_flow": ("control_flow",),
    "data_flow": ("data_flow", "constants"),
    "dataset": ("constants",),
    "functional": ("constants",),
    "image": ("image",),
    "io": ("constants",),
    "linalg": ("linalg",),
    "logging": ("logging", "constants"),
    "lookup": ("constants",),
    "math": ("math.binary", "math.reduction", "math.segment", "math.unary", "constants"),
    "nn": (
        "nn.conv",
        "nn.loss",
        "nn.norm",
        "nn.pool",
        "nn.ranking",
        "nn.recurrent",
        "nn.activation",
    ),
    "quantized": ("quantized",),
    "ragged": ("ragged",),
    "random": ("random",),
    "signal": ("signal",),
    "sparse": ("csr", "sparse"),
    "state": ("state",),
    "string": ("constants",),
    "tensor_array": ("tensor_array",),
    "tensor_list": ("tensor_list",),
    "training": ("constants",),
}
"""Modules of this package for each family of ops."""

_PRIORITY: Final = -1
"""A priority below the default, so that gradient functions of other plugins replace these."""


@hookimpl
def graphmill_register_gradients(gradients: GradientRegistrar) -> None:
    """Register the modules of each family."""
    for family, modules in _MODULES.items():
        names = (f"{__name__}.{module}" for module in modules)
        gradients.add_family(family, *names, priority=_PRIORITY)
