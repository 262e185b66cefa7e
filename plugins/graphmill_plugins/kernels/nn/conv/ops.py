"""Declare the convolution ops, and create their kernels from a backend's array functions.

`conv_kernels` and `conv_gradient_kernels` read a node's attrs, plan each shape once, and transpose
values to channels-last. A backend provides functions of channels-last arrays and a `ConvPlan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from graphmill import dtypes, errors
from graphmill.spi import KernelDef, KernelTable
from graphmill_plugins.kernels._tables import named
from graphmill_plugins.kernels.nn.conv.plan import (
    ConvPlan,
    convolution_plan,
    depthwise_filter_plan,
    depthwise_input_plan,
    depthwise_plan,
    filter_gradient_plan,
    input_gradient_plan,
)
from graphmill_plugins.kernels.nn.fusion import make_fusion
from graphmill_plugins.kernels.nn.window import (
    PLANS_OF_A_NODE,
    Windows,
    make_windows,
    vector_input,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphmill.spi import ArrayNamespace, Value

    Compute = Callable[[Value, Value, ConvPlan], Value]

CONV_TYPES: Final = (*dtypes.FLOATING, dtypes.int32)


@dataclass(frozen=True, slots=True)
class ConvOp:
    """One op of the family.

    Attributes:
        name: the op's name.
        types: its element types.
        rank: rank of its input; 0 if the rank is the length of its strides.
        is_depthwise: whether each channel has its own filters.
        takes_tensor: whether a gradient op takes a tensor for its shape, not the shape itself.
    """

    name: str
    types: tuple[Any, ...] = dtypes.FLOATING
    rank: int = 4
    is_depthwise: bool = False
    takes_tensor: bool = False

    def windows(self, attrs: Mapping[str, Any]) -> Windows:
        """Return the windows of a node.

        Raises:
            InvalidArgumentError: an attribute has a wrong length or value.
            UnimplementedError: TensorFlow's own kernel does not support a value.
        """
        if not self.rank:
            _check_general(attrs["batch_dims"], attrs["groups"])
        return make_windows(
            self.name,
            strides=attrs["strides"],
            padding=attrs["padding"],
            explicit_paddings=attrs.get("explicit_paddings", ()),
            data_format=attrs.get("data_format", "NDHWC"),
            dilations=attrs["dilations"],
            rank=self.rank or len(attrs["strides"]),
        )


def _check_general(batch_dims: int, groups: int) -> None:
    if groups != 1:
        raise errors.UnimplementedError(
            f"Conv with groups={groups}: the attr `groups` is not supported; for a grouped "
            "convolution, pass a filter with fewer channels than the input"
        )
    if batch_dims != 1:
        raise errors.UnimplementedError(
            f"Conv with batch_dims={batch_dims}: only one batch dimension is implemented"
        )


CONVOLUTIONS: Final = (
    ConvOp("Conv2D", CONV_TYPES),
    ConvOp("Conv3D", rank=5),
    ConvOp("Conv", CONV_TYPES, rank=0),
    ConvOp("DepthwiseConv2dNative", is_depthwise=True),
)
FUSED_CONVOLUTIONS: Final = (
    ConvOp("_FusedConv2D", (dtypes.float16, dtypes.float32, dtypes.float64)),
    ConvOp("_FusedConv3D", (dtypes.float16, dtypes.bfloat16, dtypes.float32), rank=5),
    ConvOp("_FusedDepthwiseConv2dNative", is_depthwise=True),
)
INPUT_GRADIENTS: Final = (
    ConvOp("Conv2DBackpropInput", CONV_TYPES),
    ConvOp("Conv3DBackpropInputV2", rank=5),
    ConvOp("Conv3DBackpropInput", rank=5, takes_tensor=True),
    ConvOp("DepthwiseConv2dNativeBackpropInput", is_depthwise=True),
)
FILTER_GRADIENTS: Final = (
    ConvOp("Conv2DBackpropFilter", CONV_TYPES),
    ConvOp("Conv3DBackpropFilterV2", rank=5),
    ConvOp("Conv3DBackpropFilter", rank=5, takes_tensor=True),
    ConvOp("DepthwiseConv2dNativeBackpropFilter", is_depthwise=True),
)


def _shape_input(op: ConvOp, rank: int, what: str, value: Value) -> tuple[int, ...]:
    """Return the shape that a gradient op takes as a vector, or as the shape of a tensor."""
    return tuple(value.shape) if op.takes_tensor else vector_input(value, rank, what)


def _cached(plan: Callable[..., ConvPlan], windows: Windows) -> Callable[..., ConvPlan]:
    """Return the plan as a function of shapes that caches the plans of a node."""
    return lru_cache(PLANS_OF_A_NODE)(partial(plan, windows))


def _forward(op: ConvOp, xp: ArrayNamespace, compute: Compute) -> Callable[..., Any]:
    def make(**attrs: Any) -> Callable[[Value, Value], Value]:
        windows = op.windows(attrs)
        plan_of = _cached(depthwise_plan if op.is_depthwise else convolution_plan, windows)

        def run(x: Value, kernel: Value) -> Value:
            plan = plan_of(x.shape, kernel.shape)
            out = compute(windows.to_channels_last(xp, x), kernel, plan)
            return windows.from_channels_last(xp, out)

        return run

    return make


def _fused(op: ConvOp, xp: ArrayNamespace, compute: Compute) -> Callable[..., Any]:
    def make(**attrs: Any) -> Callable[..., Value]:
        windows = op.windows(attrs)
        fusion = make_fusion(xp, f"Fused {op.name.removeprefix('_Fused')}", attrs["T"], attrs)
        plan_of = _cached(depthwise_plan if op.is_depthwise else convolution_plan, windows)
        _check_filter_format(attrs.get("filter_format", "HWIO"), attrs.get("num_host_args", 0))

        def run(x: Value, kernel: Value, args: list[Value], *_host_args: Any) -> Value:
            plan = plan_of(x.shape, kernel.shape)
            out = compute(windows.to_channels_last(xp, x), kernel, plan)
            if fusion.takes_side_input and args[-1].ndim == windows.rank:
                args = [*args[:-1], windows.to_channels_last(xp, args[-1])]
            return windows.from_channels_last(xp, fusion.apply(out, args))

        return run

    return make


def _check_filter_format(filter_format: str, host_inputs: int) -> None:
    if filter_format != "HWIO" or host_inputs:
        raise errors.UnimplementedError(
            f"filter_format={filter_format} with {host_inputs} host_args: only filters in HWIO "
            "without scales are implemented"
        )


def _input_gradient(op: ConvOp, xp: ArrayNamespace, compute: Compute) -> Callable[..., Any]:
    def make(**attrs: Any) -> Callable[[Value, Value, Value], Value]:
        windows = op.windows(attrs)
        plan = depthwise_input_plan if op.is_depthwise else input_gradient_plan
        plan_of = _cached(plan, windows)

        def run(input_sizes: Value, kernel: Value, gradient: Value) -> Value:
            sizes = _shape_input(op, windows.rank, "input_sizes", input_sizes)
            plan = plan_of(sizes, kernel.shape, gradient.shape)
            out = compute(kernel, windows.to_channels_last(xp, gradient), plan)
            return windows.from_channels_last(xp, out)

        return run

    return make


def _filter_gradient(op: ConvOp, xp: ArrayNamespace, compute: Compute) -> Callable[..., Any]:
    def make(**attrs: Any) -> Callable[[Value, Value, Value], Value]:
        windows = op.windows(attrs)
        plan = depthwise_filter_plan if op.is_depthwise else filter_gradient_plan
        plan_of = _cached(plan, windows)

        def run(x: Value, filter_sizes: Value, gradient: Value) -> Value:
            sizes = _shape_input(op, windows.rank, "filter_sizes", filter_sizes)
            plan = plan_of(x.shape, sizes, gradient.shape)
            x, gradient = (windows.to_channels_last(xp, value) for value in (x, gradient))
            return compute(x, gradient, plan)

        return run

    return make


def _table(
    ops: Iterable[ConvOp],
    backend: str,
    make: Callable[[ConvOp, Compute], Callable[..., Any]],
    plain: Compute,
    depthwise: Compute,
    sizes: str = "",
    types: Mapping[str, tuple[Any, ...]] | None = None,
) -> KernelTable:
    return KernelTable(
        KernelDef(
            ops=(op.name,),
            function=named(make(op, depthwise if op.is_depthwise else plain), op.name, __name__),
            backend=backend,
            types={"T": (types or {}).get(op.name, op.types)},
            static=(sizes,) if sizes and not op.takes_tensor else (),
            expensive=True,
            make=True,
        )
        for op in ops
    )


def conv_kernels(
    backend: str, xp: ArrayNamespace, *, convolve: Compute, depthwise: Compute
) -> KernelTable:
    """Return a backend's kernels of convolutions.

    Args:
        backend: name of the backend.
        xp: its array namespace.
        convolve: returns the output for input and filter.
        depthwise: the same for a depthwise convolution.
    """
    plain = _table(
        CONVOLUTIONS, backend, lambda op, compute: _forward(op, xp, compute), convolve, depthwise
    )
    fused = _table(
        FUSED_CONVOLUTIONS,
        backend,
        lambda op, compute: _fused(op, xp, compute),
        convolve,
        depthwise,
    )
    return KernelTable([*plain, *fused])


def conv_gradient_kernels(
    backend: str,
    xp: ArrayNamespace,
    *,
    of_input: Compute,
    of_filter: Compute,
    of_depthwise_input: Compute,
    of_depthwise_filter: Compute,
    types: Mapping[str, tuple[Any, ...]] | None = None,
) -> KernelTable:
    """Return a backend's kernels of gradients of convolutions, which are transposed convolutions.

    Args:
        backend: name of the backend.
        xp: its array namespace.
        of_input: returns the gradient of the input for filter and output gradient.
        of_filter: returns the gradient of the filter for input and output gradient.
        of_depthwise_input: as `of_input`.
        of_depthwise_filter: as `of_filter`.
        types: element types by op, where the backend supports other types than the op.
    """
    inputs = _table(
        INPUT_GRADIENTS,
        backend,
        lambda op, compute: _input_gradient(op, xp, compute),
        of_input,
        of_depthwise_input,
        "input_sizes",
        types,
    )
    filters = _table(
        FILTER_GRADIENTS,
        backend,
        lambda op, compute: _filter_gradient(op, xp, compute),
        of_filter,
        of_depthwise_filter,
        "filter_sizes",
        types,
    )
    return KernelTable([*inputs, *filters])
