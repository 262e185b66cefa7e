"""XlaCallModule: call a program in StableHLO, as `jax2tf` writes it into SavedModels.

Semantics: tensorflow/compiler/tf2xla/kernels/xla_call_module_op.cc. `jax.export` checks the version
of the calling convention, and the platforms for which the program was written.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import LazyModule, jax
from graphmill_plugins.kernels._strings import encode
from graphmill_plugins.kernels.xla._external_calls import external_calls
from graphmill_plugins.kernels.xla._refined_program import is_polymorphic, refined_program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphmill.spi import Value
    from graphmill.spi.files import Broker

    Call = Callable[[list[Value]], list[Value]]

_export: Any = LazyModule("jax.export")
_MAX_SHAPES: Final = 64
"""The number of shapes of arguments for which a node caches its program."""


def _check(attrs: Mapping[str, Any], broker: Broker) -> None:
    """Check that a program can be called, and that the rules of the session allow its calls."""
    if attrs["function_list"] or attrs["has_token_input_output"]:
        raise UnimplementedError(
            "XlaCallModule: programs that call TensorFlow functions or order side effects are not "
            "supported"
        )
    if attrs["dim_args_spec"]:
        raise UnimplementedError(
            "XlaCallModule: dimension arguments (dim_args_spec), which old versions of JAX wrote, "
            "are not supported; export the function again"
        )
    if broker.is_restricted and external_calls(encode(attrs["module"])):
        broker.require("python")


class _Program:
    """The program of one node, for the shapes of its arguments.

    Threads: two that need the same shapes at once may both refine the program.
    """

    def __init__(self, attrs: Mapping[str, Any]) -> None:
        self._attrs = attrs
        self._module = encode(attrs["module"])
        is_dynamic = any(shape is None or None in shape for shape in attrs["Sout"])
        self._is_dynamic = is_dynamic or is_polymorphic(self._module)
        self._exported: dict[tuple[Any, ...], Any] = {}

    def call(self, args: Sequence[Value]) -> list[Value]:
        """Return the results.

        Raises:
            InvalidArgumentError: the program is not for this platform, or not for these arguments.
        """
        key = tuple((np.shape(arg), np.dtype(arg.dtype)) for arg in args)
        exported = self._exported.get(key)
        try:
            if exported is None:
                exported = self._for_shapes(key)
            return list(exported.call(*args))
        except ValueError as error:  # what jax.export raises for versions, platforms and shapes
            raise InvalidArgumentError(f"XlaCallModule: {error}") from error

    def _for_shapes(self, key: tuple[Any, ...]) -> Any:
        module, shapes = self._module, tuple(self._attrs["Sout"])
        if self._is_dynamic:
            module, shapes = refined_program(module, key)
        if len(self._exported) >= _MAX_SHAPES:
            self._exported.clear()
        exported = self._exported[key] = _exported(module, key, shapes, self._attrs)
        return exported


def _exported(
    module: bytes, args: Sequence[tuple[Any, Any]], shapes: Sequence[Any], attrs: Mapping[str, Any]
) -> Any:
    """Return a program as an `Exported` of `jax.export`.

    Args:
        module: the serialized program.
        args: shape and type of each argument.
        shapes: the shapes of the results.
        attrs: the attrs of the node.
    """
    arg_shapes = tuple(jax.core.ShapedArray(shape, dtype) for shape, dtype in args)
    layouts = tuple(
        jax.core.ShapedArray(tuple(shape), np.dtype(dtype))
        for shape, dtype in zip(shapes, attrs["Tout"], strict=True)
    )
    described = {
        "fun_name": "XlaCallModule",
        "in_tree": jax.tree.structure((arg_shapes, {})),
        "in_avals": arg_shapes,
        "out_tree": jax.tree.structure(layouts),
        "out_avals": layouts,
        "_has_named_shardings": False,
        "_in_named_shardings": (None,) * len(arg_shapes),
        "_out_named_shardings": (None,) * len(layouts),
        "in_shardings_hlo": (None,) * len(arg_shapes),
        "out_shardings_hlo": (None,) * len(layouts),
        "nr_devices": 1,
        "platforms": tuple(name.lower() for name in attrs["platforms"]) or ("cpu",),
        "ordered_effects": (),
        "unordered_effects": (),
        "disabled_safety_checks": (),
        "mlir_module_serialized": module,
        "calling_convention_version": attrs["version"],
        "module_kept_var_idx": tuple(range(len(arg_shapes))),
        "uses_global_constants": len(attrs["platforms"]) > 1,
        "_get_vjp": None,
    }
    # Which fields describe shardings depends on the version of JAX.
    field_names = {field.name for field in fields(_export.Exported)}
    return _export.Exported(
        **{name: value for name, value in described.items() if name in field_names}
    )


@kernel("XlaCallModule", backend="jax", make=True, expensive=True, brokered=True)
def call_module(*, broker: Broker, **attrs: Any) -> Call:
    """Return the results of the program in the attr `module`.

    Raises:
        InvalidArgumentError: the program is not for this platform, or not for these arguments.
        PermissionDeniedError: the program calls functions of the process, and the rules of the
            session do not allow `python`.
        UnimplementedError: the program has dimension arguments, or calls TensorFlow functions.
    """
    _check(attrs, broker)
    return _Program(attrs).call


@kernel("XlaCallModule", backend="numpy", make=True, expensive=True, brokered=True)
def call_module_of_arrays(*, broker: Broker, **attrs: Any) -> Call:
    """Compile the program with JAX, and return its results as NumPy arrays; see `call_module`."""
    _check(attrs, broker)
    compiled: Any = jax.jit(_Program(attrs).call)
    return lambda args: [np.asarray(result) for result in compiled(args)]
