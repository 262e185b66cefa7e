"""Choose XLA compiler options for a program by the operations in it.

XLA:CPU can compute products, convolutions and sums with YNNPACK or with its own code (Eigen for
products and convolutions). By default it uses YNNPACK for all, which computes convolutions on one
core. The measurements are in `docs/explanation/lowerings.md`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import jax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jax.extend import core

_YNN: Final = "xla_cpu_experimental_ynn_fusion_type"
_DISABLED: Final = "xla_disable_hlo_passes"
_BARRIER_PASS: Final = "cse_barrier_expander"
_SUMS: Final = "LIBRARY_FUSION_TYPE_REDUCE"
_SUMS_AND_PRODUCTS: Final = f"{_SUMS},LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"


def compiler_options_for(closed: core.ClosedJaxpr, platform: str = "cpu") -> dict[str, Any]:
    """Return `compiler_options` for a traced program.

    The options depend only on the program, not on timings, so they are the same on every machine.
    """
    names = set(primitives(closed.jaxpr)) if platform == "cpu" else set()
    options: dict[str, Any] = {}
    if names & {"conv_general_dilated", "dot_general"}:
        # In programs with convolutions, which Eigen computes, its products are also faster.
        options[_YNN] = _SUMS if "conv_general_dilated" in names else _SUMS_AND_PRODUCTS
    if "optimization_barrier" in names:
        # This pass would remove the barriers before the fusion that they must prevent.
        options[_DISABLED] = _BARRIER_PASS
    return {name: value for name, value in options.items() if _is_supported(name, value)}


def primitives(jaxpr: core.Jaxpr) -> Iterator[str]:
    """Yield the name of each operation, including inner programs."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from primitives(inner)


@lru_cache(maxsize=16)
def _is_supported(option: str, value: str) -> bool:
    """Return whether the installed XLA version has an option."""
    try:
        jax.jit(lambda x: x + 1).lower(0.0).compile(compiler_options={option: value})
    except jax.errors.JaxRuntimeError:
        return False
    return True
