"""Give the dynamic dimensions of a StableHLO program the sizes of its arguments.

Semantics: `RefineDynamicShapes` in
tensorflow/compiler/tf2xla/kernels/xla_call_module_loader.cc. XLA compiles programs whose dimensions
are all static.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphmill.errors import InvalidArgumentError
from graphmill_plugins._lazy_jax import LazyModule

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    Signature = Sequence[tuple[tuple[int, ...], np.dtype[Any]]]

_ir: Any = LazyModule("jaxlib.mlir.ir")
_mlir: Any = LazyModule("jax._src.interpreters.mlir")  # jax.interpreters.mlir lacks refinement
_passmanager: Any = LazyModule("jaxlib.mlir.passmanager")
_stablehlo: Any = LazyModule("jaxlib.mlir.dialects.stablehlo")

_POLYMORPHIC: Final = b"jax.uses_shape_polymorphism"
"""The attr of programs that `jax.export` made for symbolic dimensions."""


class RefinedProgram(NamedTuple):
    """A program for arguments of certain shapes.

    Attributes:
        module: the serialized program.
        shapes: the shapes of its results.
    """

    module: bytes
    shapes: tuple[tuple[int, ...], ...]


def is_polymorphic(module: bytes) -> bool:
    """Return whether a serialized program has dimensions that its arguments determine."""
    return _POLYMORPHIC in module


def refined_program(module: bytes, signature: Signature) -> RefinedProgram:
    """Return a program for arguments of these shapes and types.

    Args:
        module: the serialized program.
        signature: shape and type of each argument.

    Raises:
        InvalidArgumentError: the arguments do not fit the program, or contradict each other; a size
            is not determined by them.
    """
    with _mlir.make_ir_context() as context, _ir.Location.unknown():
        program = _stablehlo.deserialize_portable_artifact(context, module)
        try:
            _refine_arguments(program, signature)
            refined = _mlir.refine_polymorphic_shapes(program)
        except (ValueError, RuntimeError, _ir.MLIRError) as error:
            reason = error.__cause__ or error
            raise InvalidArgumentError(
                f"the program does not take arguments of shapes "
                f"{', '.join(str(list(shape)) for shape, _ in signature) or 'none'}: {reason}"
            ) from error
        version = _stablehlo.get_current_version()
        serialized = _stablehlo.serialize_portable_artifact_str(str(refined), version)
        results = _main_type(refined).results
        return RefinedProgram(serialized, tuple(tuple(result.shape) for result in results))


def _refine_arguments(program: Any, signature: Signature) -> None:
    """Change the types of the arguments of the main function."""
    _stablehlo.register_stablehlo_passes()
    inputs = _main_type(program).inputs
    # A program for several platforms first takes the index of the platform.
    types = list(inputs[: len(inputs) - len(signature)])
    for shape, dtype in signature:
        types.append(_ir.RankedTensorType.get(shape, _mlir.dtype_to_ir_type(dtype)))
    names = ",".join(map(str, types))
    passes = f"builtin.module(stablehlo-refine-arguments{{types={names}}})"
    _passmanager.PassManager.parse(passes).run(program.operation)


def _main_type(program: Any) -> Any:
    """Return the type of the main function."""
    (main,) = (
        operation
        for operation in program.body.operations
        if "sym_name" in operation.attributes
        and _ir.StringAttr(operation.attributes["sym_name"]).value == "main"
    )
    return _ir.FunctionType(_ir.TypeAttr(main.attributes["function_type"]).value)
