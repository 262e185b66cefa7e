"""Iterators that distribute their elements over several devices.

Semantics: tensorflow/core/kernels/data/multi_device_iterator_ops.cc. Elements are computed on
request; those that are due to other devices are buffered.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import ResourceHandle
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.kernels.dataset.handles import Deleter, anonymous
from graphmill_plugins.kernels.dataset.iterators._iterator_handle import handle_text, named_handle
from graphmill_plugins.kernels.dataset.iterators.ops import (
    IteratorResource,
    check_structure,
    element_error,
)
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    dataset_kernel,
    dataset_of,
    scalar,
    structure,
)
from graphmill_plugins.kernels.state.value import resource_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import (
        CancellationManager,
        OpKernelConstruction,
        OpKernelContext,
        Shape,
        Value,
    )
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element

_STATE = ("state",)
_KIND = "MultiDeviceIterator"


class MultiDeviceIterator:
    """Distributes the elements of a dataset over devices, round-robin.

    Threads: `_lock` guards the buffers, and is held while an element is taken.

    Attributes:
        iterator: the source of the elements.
        incarnation: how many times an iteration was started.
    """

    def __init__(self, devices: int, types: Sequence[Any], shapes: Sequence[Shape]) -> None:
        self.iterator = IteratorResource(types, shapes, _KIND)
        self.incarnation = 0
        self._lock = fork_safe_lock()
        self._buffers: list[deque[Element]] = [deque() for _ in range(devices)]
        self._next_shard = 0

    def start(self, dataset: Value, ctx: OpKernelContext) -> int:
        """Start iterating over a dataset; return the incarnation id."""
        with self._lock:
            self.iterator.start(dataset_of(dataset), ctx)
            self.incarnation += 1
            self._next_shard = 0
            for buffer in self._buffers:
                buffer.clear()
            return self.incarnation

    def take(self, shard: int, incarnation: int, step: CancellationManager) -> Element | None:
        """Return the next element for a device, None at the end.

        Raises:
            InvalidArgumentError: there is no such device, or the iterator was restarted.
        """
        if not 0 <= shard < len(self._buffers):
            raise InvalidArgumentError(
                f"shard_num must be in [0, {len(self._buffers)}), got {shard}"
            )
        with self._lock:
            if incarnation != self.incarnation:
                raise InvalidArgumentError(
                    f"Invalid incarnation id: Provided: {incarnation}; Expected: {self.incarnation}"
                )
            buffer = self._buffers[shard]
            while not buffer:
                element = self.iterator.take(step)
                if element is None:
                    return None
                self._buffers[self._next_shard].append(element)
                self._next_shard = (self._next_shard + 1) % len(self._buffers)
            return buffer.popleft()


def _resource(handle: Any) -> MultiDeviceIterator:
    resource: MultiDeviceIterator = handle.expect(MultiDeviceIterator)
    return resource


@dataset_kernel("MultiDeviceIterator", effects=_STATE)
class MultiDeviceIteratorKernel:
    """Return an iterator for several devices that has not been started."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._container, self._name = resource_key(construction)
        self._devices = len(construction.attr("devices"))
        self._types = construction.attrs["output_types"]
        self._shapes = construction.attrs["output_shapes"]

    def __call__(self, ctx: OpKernelContext) -> ResourceHandle:
        """Return the handle."""

        def make() -> MultiDeviceIterator:
            return MultiDeviceIterator(self._devices, self._types, self._shapes)

        resource = ctx.resources.lookup_or_create(
            self._container, self._name, MultiDeviceIterator, make
        )
        iterator = resource.iterator
        check_structure(self._types, self._shapes, iterator.dtypes, iterator.shapes)
        container = self._container or ctx.resources.default_container
        return ResourceHandle(ctx.device.name, container, self._name, _KIND, resource)


@dataset_kernel("AnonymousMultiDeviceIteratorV3", effects=_STATE)
def anonymous_multi_device_iterator(
    ctx: OpKernelContext,
    devices: Sequence[str],
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> ResourceHandle:
    """Create an iterator for several devices; return its handle."""
    resource = MultiDeviceIterator(len(devices), *structure(output_types, output_shapes))
    return anonymous(ctx, resource, "AnonymousMultiDeviceIterator")


@dataset_kernel("AnonymousMultiDeviceIterator", effects=_STATE)
def anonymous_multi_device_iterator_v1(
    ctx: OpKernelContext,
    devices: Sequence[str],
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> tuple[ResourceHandle, Deleter]:
    """Create an iterator for several devices; return its handle and deleter."""
    return anonymous_multi_device_iterator(ctx, devices, output_types, output_shapes), Deleter()


@dataset_kernel("DeleteMultiDeviceIterator", effects=_STATE)
def delete_multi_device_iterator(
    ctx: OpKernelContext, multi_device_iterator: Any, iterators: list[Any], deleter: Any
) -> None:
    """Delete an iterator for several devices; the iterators of its devices need no deletion."""
    del ctx, iterators, deleter
    _resource(multi_device_iterator).iterator.close()
    multi_device_iterator.resource = None


@dataset_kernel("MultiDeviceIteratorInit", effects=_STATE)
def multi_device_iterator_init(
    ctx: OpKernelContext, dataset: Value, multi_device_iterator: Any, max_buffer_size: Value
) -> Value:
    """Start iterating over a dataset; return the incarnation id."""
    scalar(max_buffer_size, "max_buffer_size")
    return np.int64(_resource(multi_device_iterator).start(dataset, ctx))


@dataset_kernel("MultiDeviceIteratorGetNextFromShard", effects=_STATE, expensive=True, waits=True)
def multi_device_iterator_get_next(
    ctx: OpKernelContext,
    multi_device_iterator: Any,
    shard_num: Value,
    incarnation_id: Value,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> list[Value]:
    """Return the next element for a device."""
    shard = int(scalar(shard_num, "shard_num"))
    incarnation = int(scalar(incarnation_id, "incarnation_id"))
    element = _resource(multi_device_iterator).take(shard, incarnation, ctx.cancellation)
    error = element_error(element, *structure(output_types, output_shapes))
    if error is not None:
        raise error
    return list(element or ())


@dataset_kernel("MultiDeviceIteratorToStringHandle", effects=_STATE)
def multi_device_iterator_to_string_handle(
    ctx: OpKernelContext, multi_device_iterator: Any
) -> Value:
    """Return a string by which another step finds the iterator."""
    del ctx
    handle = multi_device_iterator
    _resource(handle)
    return handle_text(handle)


@dataset_kernel("MultiDeviceIteratorFromStringHandle", effects=_STATE)
def multi_device_iterator_from_string_handle(
    ctx: OpKernelContext,
    string_handle: Value,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> ResourceHandle:
    """Return the handle of the iterator that a string names."""
    message = named_handle(string_handle)
    resource = ctx.resources.lookup(message.container, message.name, MultiDeviceIterator)
    if output_types:
        types, shapes = structure(output_types, output_shapes)
        check_structure(types, shapes, resource.iterator.dtypes, resource.iterator.shapes)
    return ResourceHandle(
        ctx.device.name, message.container, message.name, message.maybe_type_name, resource
    )
