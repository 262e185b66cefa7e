"""Choose XLA's options for one program by the sizes of its products.

XLA:CPU computes products of matrices and convolutions by YNNPACK unless told otherwise. For large
ones that is faster than Eigen, for many small ones slower: it takes threads where one would do.
The measurements are in `docs/explanation/lowerings.md`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import jax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jax.extend import core

_LARGE: Final = 30e6  # floating point operations of a product, in the mean of a program
_YNN: Final = "xla_cpu_experimental_ynn_fusion_type"


def compiler_options_for(closed: core.ClosedJaxpr, platform: str = "cpu") -> dict[str, Any]:
    """Return `compiler_options` for a traced program.

    The same program gets the same options on every machine: nothing is timed.
    """
    products = list(product_sizes(closed.jaxpr)) if platform == "cpu" else []
    if not products or sum(products) / len(products) >= _LARGE or not _is_known(_YNN, ""):
        return {}
    return {_YNN: ""}


def product_sizes(jaxpr: core.Jaxpr) -> Iterator[float]:
    """Yield the floating point operations of each product and convolution, inner programs' too."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            sizes = _shape(eqn.invars[0])
            yield (
                2.0 * math.prod(_shape(eqn.outvars[0])) * math.prod(sizes[i] for i in contracted)
            )
        elif eqn.primitive.name == "conv_general_dilated":
            sizes = _shape(eqn.invars[1])
            outputs = sizes[eqn.params["dimension_numbers"].rhs_spec[0]]
            taps = math.prod(sizes) / max(1, outputs)
            yield 2.0 * math.prod(_shape(eqn.outvars[0])) * taps
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from product_sizes(inner)


def _shape(variable: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = variable.aval.shape
    return shape


@lru_cache(maxsize=16)
def _is_known(option: str, value: str) -> bool:
    """Return whether the installed XLA takes an option, which come and go between versions."""
    try:
        jax.jit(lambda x: x + 1).lower(0.0).compile(compiler_options={option: value})
    except jax.errors.JaxRuntimeError:
        return False
    return True
