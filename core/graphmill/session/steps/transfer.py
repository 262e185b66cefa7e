"""Copy feeds and fetches between the client's memory and that of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill.errors import InvalidArgumentError, OpError
from graphmill.graph.node_roles import is_argument, is_result
from graphmill.lowering.placement.memory_types import is_always_host
from graphmill.runtime.kernels.kernel_errors import as_status
from graphmill.session.steps.feeds import feed_converter

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from graphmill.dtypes import DType
    from graphmill.graph.node import Node
    from graphmill.lowering.partitioning.build_executors import PerPartition
    from graphmill.runtime.devices.device import Device
    from graphmill.typing import Shape, Value

    Copy = Callable[[Value], Value]


def feed_converters(
    items: Sequence[PerPartition],
    names: Sequence[str],
    types: Sequence[DType],
    shapes: Sequence[Shape],
    on_device: Container[str] = (),
) -> tuple[Copy, ...]:
    """Return, for each feed, the function from the caller's value to a tensor on the device.

    Args:
        items: the partitions, whose `_Arg` nodes determine the devices.
        names, types, shapes: those of the feeds; a shape is None if it is unknown.
        on_device: names of the feeds whose values may be on the device already.
    """
    converters = []
    copies = _copies_in(items, types)
    for name, dtype, shape, copy in zip(names, types, shapes, copies, strict=True):
        convert = _compose(feed_converter(name, dtype, shape), copy)
        if name in on_device and copy is not None:
            convert = _skip_if_on_device(convert, name, dtype)
        converters.append(convert)
    return tuple(converters)


def copies_out(
    items: Sequence[PerPartition], types: Sequence[DType], stays: Sequence[bool] = ()
) -> tuple[Copy, ...]:
    """Return, for each fetch, the copy function from the device of its `_Retval` to the host.

    Args:
        items: the partitions.
        types: element types of the fetches.
        stays: the fetches that stay on their devices.
    """
    devices = _devices_of(items, is_result)
    staying = {i for i, does_stay in enumerate(stays) if does_stay}
    return tuple(
        identity
        if device is None or device.is_host_memory or is_always_host(dtype)
        else (identity if i in staying else _compose(_checked(device.to_host, device), _scalar))
        for i, device, dtype in ((i, devices.get(i), dtype) for i, dtype in enumerate(types))
    )


def arrays_of_fed(
    to_host: Sequence[Copy], fetches: Sequence[str], feeds: Sequence[str], types: Sequence[DType]
) -> tuple[Copy, ...]:
    """Return `to_host` with fetches that are fed as arrays, also of rank 0, as in TensorFlow.

    Args:
        to_host: the copy function of each fetch.
        fetches: the names of the fetches.
        feeds: the names of the feeds.
        types: element types of the fetches.
    """
    fed = set(feeds)
    return tuple(
        _compose(copy, _to_array(dtype.base_dtype))
        if name in fed and dtype.is_numpy_compatible
        else copy
        for copy, name, dtype in zip(to_host, fetches, types, strict=True)
    )


def _to_array(dtype: DType) -> Copy:
    expected = dtype.as_numpy_dtype

    def convert(value: Value) -> Value:
        return np.array(value, np.dtype(object) if expected.hasobject else expected)

    return convert


def _skip_if_on_device(convert: Copy, name: str, dtype: DType) -> Copy:
    """Return `convert` for host values; values of a device are passed unchanged.

    The function raises InvalidArgumentError for a device array of the wrong element type.
    """

    def take(value: Value) -> Value:
        value_dtype = getattr(value, "dtype", None)
        if value_dtype is None or isinstance(value, np.ndarray | np.generic):
            return convert(value)
        if isinstance(value_dtype, np.dtype) and value_dtype != dtype.as_numpy_dtype:
            raise InvalidArgumentError(
                f"the value fed for {name!r} has dtype {value_dtype.name}; expected {dtype.name}"
            )
        return value

    return take


def _compose(convert: Copy, copy: Copy | None) -> Copy:
    """Return `convert`, followed by `copy` if there is one."""
    return convert if copy is None else lambda value: copy(convert(value))


def _checked(copy: Copy, device: Device) -> Copy:
    """Return a device's function, whose exceptions become errors that name the device."""

    def checked(value: Value) -> Value:
        try:
            return copy(value)
        except OpError as error:
            error.locate(device=device.name)
            raise
        except Exception as error:
            raise as_status(error, None).locate(device=device.name) from error

    return checked


def _devices_of(
    items: Sequence[PerPartition], is_wanted: Callable[[Node], bool]
) -> dict[int, Device]:
    return {
        node.attrs["index"]: item.device
        for item in items
        for node in item.graph.nodes
        if is_wanted(node)
    }


def identity(value: Value) -> Value:
    """Return the value unchanged: it is in host memory already."""
    return value


def _scalar(value: Value) -> Value:
    """Return an array of rank 0 as a scalar, as fetches of rank 0 are."""
    return value[()] if type(value) is np.ndarray and not value.ndim else value


def _copies_in(items: Sequence[PerPartition], types: Sequence[DType]) -> list[Copy | None]:
    """Return, for each feed, the copy function to the device of its `_Arg`; None for no copy."""
    devices = _devices_of(items, is_argument)
    return [
        None
        if device is None or device.is_host_memory or is_always_host(dtype)
        else _checked(device.to_device, device)
        for device, dtype in ((devices.get(i), dtype) for i, dtype in enumerate(types))
    ]
