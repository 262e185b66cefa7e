"""Find the external calls of a StableHLO program: functions of the process, and channels.

XLA looks a custom call up by its name among the functions that libraries have registered. Some
call Python functions by an index or address in the program, or trust sizes in it, so a program
could read and write the memory of the process.
"""

from __future__ import annotations

from typing import Any, Final

from graphmill.errors import InvalidArgumentError
from graphmill_plugins._lazy_jax import LazyModule

_ir: Any = LazyModule("jaxlib.mlir.ir")
_mlir: Any = LazyModule("jax.interpreters.mlir")
_stablehlo: Any = LazyModule("jaxlib.mlir.dialects.stablehlo")

_EXPANDED: Final = frozenset(
    {
        *("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy.FuncResultSharding"),
        *("annotate_device_placement", "shape_assertion", "TopK", "ApproxTopK", "mhlo.topk"),
        *(f"stablehlo.dynamic_{name}" for name in ("reduce_window", "rng_bit_generator", "top_k")),
        *(f"mhlo.{name}" for name in ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf")),
        *("mhlo.sinh", "mhlo.tan", "mhlo.ragged_dot"),
    }
)
"""Targets that the compiler replaces by operations of its own."""
_CHANNELS: Final = frozenset({"infeed", "outfeed", "recv", "send"})


def external_calls(module: bytes) -> list[str]:
    """Return the sorted targets of custom calls that are not operations, and used channels.

    Raises:
        InvalidArgumentError: the bytes are no program.
    """
    found: set[str] = set()

    def visit(operation: Any) -> Any:
        name = operation.name.rpartition(".")[2]
        if name == "custom_call":
            found.add(_ir.StringAttr(operation.attributes["call_target_name"]).value)
        elif name in _CHANNELS:
            found.add(name)
        return _ir.WalkResult.ADVANCE

    with _mlir.make_ir_context() as context:
        try:
            program = _stablehlo.deserialize_portable_artifact(context, module)
            program.operation.walk(visit)
        except Exception as error:  # MLIR's errors have no common class
            message = f"XlaCallModule: not a StableHLO program: {error}"
            raise InvalidArgumentError(message) from error
    return sorted(found - _EXPANDED)
