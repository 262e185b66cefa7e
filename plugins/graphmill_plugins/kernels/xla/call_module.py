"""XlaCallModule: call a program in StableHLO, as `jax2tf` writes it into SavedModels.

Semantics: tensorflow/compiler/tf2xla/kernels/xla_call_module_op.cc. `jax.export` checks the version
of the calling convention, and the platforms for which the program was written.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import LazyModule, jax
from graphmill_plugins.kernels._strings import encode
from graphmill_plugins.kernels.xla._external_calls import external_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphmill.spi import Value
    from graphmill.spi.files import Broker

    Call = Callable[[list[Value]], list[Value]]

_export: Any = LazyModule("jax.export")


def _check(attrs: Mapping[str, Any], broker: Broker) -> None:
    """Check that a program can be called, and that the rules of the session allow its calls."""
    if attrs["function_list"] or attrs["has_token_input_output"]:
        raise UnimplementedError(
            "XlaCallModule: programs that call TensorFlow functions or order side effects are not "
            "supported"
        )
    if attrs["dim_args_spec"] or any(-1 in _sizes(shape) for shape in attrs["Sout"]):
        raise UnimplementedError(
            "XlaCallModule: programs with dimensions of dynamic size are not supported; export the "
            "function for fixed shapes"
        )
    if broker.is_restricted and external_calls(encode(attrs["module"])):
        broker.require("python")


def _sizes(shape: Any) -> Sequence[int]:
    return (-1,) if shape is None else tuple(-1 if size is None else size for size in shape)


def _exported(args: Sequence[Value], attrs: Mapping[str, Any]) -> Any:
    """Return the program as an `Exported` of `jax.export`, for arguments of these shapes."""
    arg_shapes = tuple(jax.core.ShapedArray(np.shape(arg), arg.dtype) for arg in args)
    layouts = tuple(
        jax.core.ShapedArray(_sizes(shape), np.dtype(dtype))
        for shape, dtype in zip(attrs["Sout"], attrs["Tout"], strict=True)
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
        "mlir_module_serialized": encode(attrs["module"]),
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


def _call(attrs: Mapping[str, Any], args: Sequence[Value]) -> list[Value]:
    try:
        return list(_exported(args, attrs).call(*args))
    except ValueError as error:  # what jax.export raises for versions, platforms and shapes
        raise InvalidArgumentError(f"XlaCallModule: {error}") from error


@kernel("XlaCallModule", backend="jax", make=True, expensive=True, brokered=True)
def call_module(*, broker: Broker, **attrs: Any) -> Call:
    """Return the results of the program in the attr `module`.

    Raises:
        InvalidArgumentError: the program is not for this platform, or not for these arguments.
        PermissionDeniedError: the program calls functions of the process, and the rules of the
            session do not allow `python`.
        UnimplementedError: the program has dynamic shapes, or calls TensorFlow functions.
    """
    _check(attrs, broker)
    return lambda args: _call(attrs, args)


@kernel("XlaCallModule", backend="numpy", make=True, expensive=True, brokered=True)
def call_module_of_arrays(*, broker: Broker, **attrs: Any) -> Call:
    """Compile the program with JAX, and return its results as NumPy arrays; see `call_module`."""
    _check(attrs, broker)
    compiled: Any = jax.jit(lambda args: _call(attrs, args))
    return lambda args: [np.asarray(result) for result in compiled(args)]
