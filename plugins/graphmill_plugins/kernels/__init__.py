"""The kernels of TensorFlow's ops, by family, on NumPy and JAX.

A module is imported when one of its ops is first needed; `_ops` lists the ops of each module. The
modules of a backend are imported only if a device accepts that backend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import hookimpl
from graphmill_plugins.kernels._ops import OPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import KernelRegistrar, Registrar, VariantCodec

MODULES: dict[str, tuple[str, ...]] = {
    "array": (
        "array.assign",
        "array.block",
        "array.check_numerics",
        "array.diagonal",
        "array.edit_distance",
        "array.fingerprint",
        "array.gather",
        "array.identity",
        "array.immutable_const",
        "array.concat_split",
        "array.multi_hot",
        "array.permute",
        "array.pad",
        "array.patches",
        "array.scatter",
        "array.shape",
        "array.slice",
        "array.unique",
        "array.variant",
    ),
    "audio": ("audio.microfrontend", "audio.spectrogram", "audio.wav"),
    "control_flow": ("control_flow.ops", "control_flow.transfer"),
    "data_flow": (
        "data_flow.barrier",
        "data_flow.accumulator",
        "data_flow.partition_stitch",
        "data_flow.queue",
        "data_flow.enqueue_dequeue",
        "data_flow.record_input",
        "data_flow.staging",
        "data_flow.stack",
        "data_flow.session_tensor",
    ),
    "dataset": (
        "dataset.assertions",
        "dataset.auto_shard",
        "dataset.choose_fastest",
        "dataset.compression",
        "dataset.data_service",
        "dataset.files.lmdb",
        "dataset.files.save_load",
        "dataset.files.snapshots",
        "dataset.files.sql",
        "dataset.functions",
        "dataset.handles",
        "dataset.iterators.consume",
        "dataset.iterators.iterator_state",
        "dataset.iterators.multi_device",
        "dataset.iterators.ops",
        "dataset.iterators.random_access",
        "dataset.options",
        "dataset.pace",
        "dataset.parse_example",
        "dataset.regroup",
        "dataset.sampling",
        "dataset.serialization",
        "dataset.sources",
        "dataset.stats",
        "dataset.transforms",
        "dataset.wrapped",
        "functional.map_defun",
    ),
    "distributed": ("distributed.collective", "distributed.collective_group"),
    "functional": (
        "functional.batch",
        "functional.gradient",
        "functional.ops",
        "functional.py_func",
        "functional.batch_tensors",
        "functional.unbatch",
        "functional.unbatch_grad",
    ),
    "image": (
        "image.boxes",
        "image.codec",
        "image.combined_boxes",
        "image.color",
        "image.distort",
        "image.draw",
        "image.encode",
        "image.random_crop",
        "image.resample",
        "image.resize",
        "image.resize_grad",
        "image.transform",
    ),
    "io": ("io.checkpoint", "io.file", "io.reader", "io.remap"),
    "linalg": ("linalg.einsum", "linalg.decompositions", "linalg.solve"),
    "logging": ("logging.debug", "logging.debug_events", "logging.ops"),
    "lookup": ("lookup.ops", "lookup.text_file"),
    "math": (
        "math.cast",
        "math.clustering",
        "math.compare",
        "math.complex",
        "math.composition",
        "math.count",
        "math.cumulative",
        "math.division",
        "math.elementwise",
        "math.gradient",
        "math.igamma_grad",
        "math.fused_matmul",
        "math.matmul",
        "math.reduction",
        "math.requantize",
        "math.segment",
        "math.sequence",
        "math.sobol",
        "math.special",
        "math.stochastic_cast",
        "math.variant",
        "math.vector",
    ),
    "nn": (
        "nn.activation",
        "nn.activation_grad",
        "nn.approx_top_k",
        "nn.conv.fused",
        "nn.conv.grad_kernels",
        "nn.conv.kernels",
        "nn.ctc.decode",
        "nn.ctc.loss",
        "nn.data_format",
        "nn.dilation",
        "nn.isotonic",
        "nn.loss",
        "nn.norm.fused",
        "nn.norm.global_norm",
        "nn.norm.grad_kernels",
        "nn.norm.kernels",
        "nn.nth_element",
        "nn.pool.argmax",
        "nn.pool.fractional",
        "nn.pool.grad_kernels",
        "nn.pool.kernels",
        "nn.recurrent.block_lstm",
        "nn.recurrent.kernels",
        "nn.sampling.accidental_hits",
        "nn.sampling.candidates",
    ),
    "parsing": (
        "parsing.csv",
        "parsing.decode_proto",
        "parsing.encode_proto",
        "parsing.example",
        "parsing.json_example",
        "parsing.number",
        "parsing.sequence",
        "parsing.tensor",
        "parsing.variant_tensor",
    ),
    "quantized": (
        "quantized.arithmetic",
        "quantized.calibration",
        "quantized.calibration_saver",
        "quantized.convert",
        "quantized.fake_quant",
        "quantized.fused_convolution",
        "quantized.fused_ops",
        "quantized.fused_product",
        "quantized.layers",
        "quantized.norm",
        "quantized.packed",
        "quantized.resize",
        "quantized.round_trip",
        "quantized.uniform",
        "quantized.uniform_products",
    ),
    "ragged": ("ragged.cross", "ragged.ops", "ragged.to_tensor", "ragged.variant"),
    "random": (
        "random.binomial",
        "random.gamma_grad",
        "random.generator",
        "random.index_shuffle",
        "random.rejection",
        "random.stateful",
        "random.stateless",
    ),
    "signal": ("signal.fft",),
    "sparse": (
        "sparse.arithmetic",
        "sparse.cholesky",
        "sparse.cross",
        "sparse.cross_hashed",
        "sparse.csr",
        "sparse.dense",
        "sparse.layout",
        "sparse.matmul",
        "sparse.serialize",
        "sparse.sets",
    ),
    "state": ("state.mutex", "state.ref", "state.resource", "state.scatter"),
    "string": (
        "string.basic",
        "string.format",
        "string.hash",
        "string.reduce",
        "string.regex",
        "string.split",
        "string.script",
        "string.unicode",
    ),
    "summary": ("summary.protos", "summary.writers"),
    "tensor_array": ("tensor_array.bulk", "tensor_array.ops"),
    "tensor_list": ("tensor_list.stack_concat", "tensor_list.ops"),
    "training": ("training.ops", "training.sdca", "training.sdca_optimizer", "training.word2vec"),
    "variant": ("dataset.iterators.optional", "tensor_map.ops", "variant.composite_tensor"),
    "xla": (
        "xla.call_module",
        "xla.control_flow",
        "xla.conv",
        "xla.gather",
        "xla.ops",
        "xla.random",
        "xla.reduce",
        "xla.scatter",
        "xla.sort",
    ),
}
"""Modules by op family, with kernels for NumPy and kernels for any array library."""

JAX_MODULES: dict[str, tuple[str, ...]] = {
    "array": ("array_index", "array_other"),
    "linalg": ("linalg_ops",),
    "math": (
        *("math_complex", "math_count", "math_cumulative", "math_gamma", "math_other"),
        *("math_segment", "math_special", "math_trigonometric"),
    ),
    "nn": ("nn_block_lstm", "nn_conv", "nn_conv_grad", "nn_pool", "nn_pool_grad"),
    "random": ("random_gamma", "random_truncated"),
}
"""Modules of the package `jax` by op family, with kernels for JAX alone."""

VARIANTS: dict[str, str] = {
    "CompositeTensorVariant": "composite_tensor:CODEC",
    "Graphmill>IteratorState": "iterator_state:CODEC",
    "RaggedTensorVariant": "ragged_tensor:CODEC",
    "tensorflow::CSRSparseMatrix": "csr_matrix:CODEC",
    "tensorflow::Tensor": "tensor:CODEC",
    "tensorflow::TensorList": "tensor_list:CODEC",
    "tensorflow::TensorMap": "tensor_map:CODEC",
    "tensorflow.data.CompressedElement": "compressed_element:CODEC",
    "tensorflow::data::Optional": "optional:CODEC",
}
"""Codecs in the package `variant.codecs` by the type names in messages; most are TensorFlow's."""


@hookimpl
def graphmill_register_kernels(kernels: KernelRegistrar) -> None:
    """Register the modules of each family."""
    for family, modules in MODULES.items():
        _add_family(kernels, family, modules)
    for family, modules in JAX_MODULES.items():
        _add_family(kernels, family, [f"jax.{module}" for module in modules], backend="jax")
    kernels.add_unsupported(f"{__name__}.unsupported:REASONS")


@hookimpl
def graphmill_register_variants(variants: Registrar[VariantCodec]) -> None:
    """Register the codecs of TensorFlow's variant types."""
    for type_name, reference in VARIANTS.items():
        variants.add(type_name, f"{__name__}.variant.codecs.{reference}")


def _add_family(
    kernels: KernelRegistrar, family: str, modules: Sequence[str], backend: str | None = None
) -> None:
    names = {f"{__name__}.{module}": OPS.get(module) for module in modules}
    ops = {name: text.split() for name, text in names.items() if text is not None}
    kernels.add_family(family, *names, backend=backend, ops=ops)
