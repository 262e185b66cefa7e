"""`graphmill explain MODEL --memory`: forecast the memory of a step, and measure it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.cli.output.formatting import Table
from graphmill.explain.memory import peaks
from graphmill.explain.memory_forecast import MemoryForecast, forecast_memory
from graphmill.explain.plain import as_plain
from graphmill.graph.device_name import local_name
from graphmill.session.timeouts import timeout_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphmill.cli.output.formatting import Block
    from graphmill.explain.memory import Peak
    from graphmill.explain.step import StepRecord
    from graphmill.inputs.image_input import ImageOptions
    from graphmill.inputs.source import Source
    from graphmill.models.loaded_model import LoadedModel

_SHOWN = 10  # holders of each peak


class MemoryUsage(NamedTuple):
    """The memory of a step: forecast, and measured if the model was run."""

    forecast: MemoryForecast
    measured: dict[str, Peak] | None

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        plain: dict[str, Any] = as_plain(self)
        return plain


def memory_usage(
    loaded: LoadedModel,
    sources: Mapping[str, Source],
    images: ImageOptions,
    record: StepRecord,
    *,
    is_run: bool,
    timeout: float | None = None,
) -> MemoryUsage:
    """Return the memory of a step of a model.

    Args:
        loaded: the model.
        sources: the sources of inputs, whose shapes count; the other inputs are zeros.
        images: how images are converted.
        record: the record of the step, for the devices of its nodes.
        is_run: whether to run and measure a step, too.
        timeout: the seconds that this step may take; None for no limit.

    Raises:
        InvalidArgumentError: a value does not fit its input, or an input cannot be fed zeros.
        OpError: a step failed.
    """
    from graphmill.cli.reports.jit_report import step_values

    values, _ = step_values(loaded, sources, images)
    graph = loaded.session.step_graph(record.fetches, record.feeds)
    forecast = forecast_memory(
        graph,
        loaded.host.ops,
        [values[feed].shape if feed in values else None for feed in record.feeds],
        {one.node: one.device for one in record.nodes},
    )
    return MemoryUsage(forecast, _measured(loaded, values, timeout) if is_run else None)


def _measured(
    loaded: LoadedModel, values: Mapping[str, Any], timeout: float | None
) -> dict[str, Peak]:
    from graphmill.timeline import StepTrace, lifetimes, node_runs

    trace = StepTrace()
    outputs, options = list(loaded.outputs.values()), timeout_options(timeout)
    loaded.session.run(outputs, values, options=options, run_metadata=trace)
    return peaks(lifetimes(node_runs(trace)))


def memory_blocks(usage: MemoryUsage) -> Iterator[Block]:
    """Yield the memory of a step as text."""
    forecast = usage.forecast
    for device, peak in forecast.peaks.items():
        position = f"at {forecast.order[min(peak.time, len(forecast.order) - 1)]}"
        yield _table(f"forecast for {_short(device)}: {peak.num_bytes:,} bytes {position}", peak)
    if not forecast.peaks:
        yield "forecast: no outputs of known size"
    if forecast.unknown:
        names = ", ".join(forecast.unknown[:_SHOWN])
        yield (
            f"{len(forecast.unknown)} nodes of unknown size are not counted: {names}"
            f"{', …' if len(forecast.unknown) > _SHOWN else ''}"
        )
    yield f"constants, which are held between steps: {forecast.num_constant_bytes:,} bytes"
    for device, peak in (usage.measured or {}).items():
        title = f"measured in a traced step on {_short(device)}: {peak.num_bytes:,} bytes"
        yield _table(title, peak)


def _table(title: str, peak: Peak) -> Table:
    table = Table(("node", "bytes"), title=title)
    table.rows += [(one.node, one.num_bytes) for one in peak.holders[:_SHOWN]]
    if len(peak.holders) > _SHOWN:
        rest = peak.holders[_SHOWN:]
        table.rows.append((f"{len(rest)} others", sum(one.num_bytes for one in rest)))
    return table


def _short(device: str) -> str:
    return local_name(device) or "the device"
