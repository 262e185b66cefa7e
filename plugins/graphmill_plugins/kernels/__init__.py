"""The kernels of TensorFlow's ops, by family, on NumPy and JAX.

A family's modules are imported when the first op of the family is needed; those of a backend only
when a device accepts that backend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.plugin.markers import hookimpl

if TYPE_CHECKING:
    from graphmill.plugin.registrars import KernelRegistrar

_MODULES: dict[str, tuple[str, ...]] = {
    "array": (
        "array_assign",
        "array_block",
        "array_check",
        "array_diagonal",
        "array_edit_distance",
        "array_fingerprint",
        "array_gather",
        "array_identity",
        "array_join",
        "array_order",
        "array_pad",
        "array_patches",
        "array_scatter",
        "array_shape",
        "array_slice",
        "array_unique",
        "array_variant",
    ),
    "control_flow": ("control_flow_ops", "control_flow_transfer"),
    "data_flow": (
        "data_flow_partition",
        "data_flow_queue",
        "data_flow_queue_elements",
        "data_flow_stack",
        "session_tensor",
    ),
    "functional": ("functional_gradient", "functional_ops"),
    "image": ("image_boxes", "image_codec", "image_color", "image_resize"),
    "io": ("io_checkpoint", "io_file"),
    "linalg": ("linalg_einsum", "linalg_factor", "linalg_solve"),
    "logging": ("logging_debug", "logging_ops"),
    "lookup": ("lookup_ops", "lookup_text_file"),
    "math": (
        "math_cast",
        "math_compare",
        "math_complex",
        "math_count",
        "math_cumulative",
        "math_division",
        "math_elementwise",
        "math_gradient",
        "math_igamma_grad",
        "math_matmul",
        "math_reduction",
        "math_segment",
        "math_sequence",
        "math_special",
        "math_variant",
        "math_vector",
    ),
    "nn": (
        "nn_activation",
        "nn_activation_grad",
        "nn_conv",
        "nn_conv_grad",
        "nn_loss",
        "nn_norm",
        "nn_norm_grad",
        "nn_pool",
        "nn_pool_grad",
    ),
    "parsing": ("parsing_number",),
    "random": ("random_stateful", "random_stateless"),
    "sparse": ("sparse_dense",),
    "state": ("state_ref", "state_resource", "state_scatter"),
    "string": (
        "string_basic",
        "string_format",
        "string_hash",
        "string_reduce",
        "string_regex",
        "string_split",
        "string_unicode",
    ),
    "tensor_array": ("tensor_array_many", "tensor_array_ops"),
    "tensor_list": ("tensor_list_join", "tensor_list_ops"),
    "training": ("training_ops",),
}
"""Modules of this package for each family of ops: NumPy kernels and general ones."""

_JAX_MODULES: dict[str, tuple[str, ...]] = {
    "array": ("array_index", "array_other"),
    "linalg": ("linalg_ops",),
    "math": ("math_count", "math_other", "math_segment", "math_special"),
    "nn": ("nn_conv", "nn_conv_grad", "nn_pool", "nn_pool_grad"),
}
"""Modules of `jax` in this package for each family of ops."""


@hookimpl
def graphmill_register_kernels(kernels: KernelRegistrar) -> None:
    """Register the modules of each family."""
    for family, modules in _MODULES.items():
        kernels.add_family(family, *(f"{__name__}.{module}" for module in modules))
    for family, modules in _JAX_MODULES.items():
        names = (f"{__name__}.jax.{module}" for module in modules)
        kernels.add_family(family, *names, backend="jax")
