"""Report the holders of memory when a step runs out of it (`report_tensor_allocations_upon_oom`).

Array libraries do not say which arrays they hold. So the report lists the variables of the session,
and the outputs that the step has computed, some of which may have been freed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.runtime.resources.variables import Variable
from graphmill.runtime.value_shape import num_bytes_of_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from graphmill.errors import OpError
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.steps.step_stats import StepStatsCollector

_MAX_LINES: Final = 20  # lines for each device


def add_memory_report(
    error: OpError, devices: Iterable[Device], collector: StepStatsCollector
) -> None:
    """Append the holders of memory on each device to an error's message, the largest first."""
    for device in devices:
        sizes = sorted((*_variables(device), *_outputs(device, collector)), reverse=True)
        error.message += f"\n\nCurrent usage from device: {device.name}"
        allocator = device.allocator()
        if allocator is not None:
            error.message += f", {allocator.stats().bytes_in_use} bytes in use"
        error.message += "".join(
            f"\n  {size} bytes from {name}" for size, name in sizes[:_MAX_LINES]
        )
        if len(sizes) > _MAX_LINES:
            size = sum(size for size, _ in sizes[_MAX_LINES:])
            error.message += f"\n  {size} bytes from {len(sizes) - _MAX_LINES} others"


def _variables(device: Device) -> Iterator[tuple[int, str]]:
    resources = device.resource_mgr
    for container in resources.containers():
        for kind, name in resources.names(container):
            variable = resources.find(container, name, Variable)
            if kind == Variable.__name__ and variable is not None and variable.value is not None:
                yield num_bytes_of_value(variable.value), f"variable {name}"


def _outputs(device: Device, collector: StepStatsCollector) -> Iterator[tuple[int, str]]:
    for stats in collector.nodes(device.name):
        size = sum(output.num_bytes for output in stats.outputs)
        if size:
            yield size, f"{stats.node_name} (computed in this step)"
