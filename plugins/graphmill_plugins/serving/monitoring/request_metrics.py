"""`RequestMetrics`: counts and times of requests, for Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from graphmill_plugins._server.prometheus import Metric, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphmill_plugins.serving.models.model_manager import ModelManager

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ROWS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)


class Histogram:
    """Counts of values by upper bounds.

    Args:
        bounds: the upper bounds, in rising order.

    Threads: all methods are for that of the event loop.
    """

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self, labels: Mapping[str, str]) -> Iterator[Sample]:
        """Yield its samples, as Prometheus expects those of a histogram."""
        totals = list(accumulate(self._counts))
        for bound, total in zip((*self._bounds, float("inf")), totals, strict=True):
            text = "+Inf" if bound == float("inf") else f"{bound:g}"
            yield Sample({**labels, "le": text}, total, "_bucket")
        yield Sample(labels, self._sum, "_sum")
        yield Sample(labels, totals[-1], "_count")


class RequestMetrics:
    """The metrics of the requests to a server.

    Attributes:
        in_flight: how many requests are in progress.
        pending_bytes: the size of the bodies of these requests.
        refused: how many were refused before they reached a model, by reason.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        self.pending_bytes = 0
        self.refused: dict[str, int] = {}
        self._requests: dict[tuple[str, str, str], int] = {}
        self._seconds: dict[tuple[str, str], Histogram] = {}
        self._rows: dict[str, Histogram] = {}

    def count(self, model: str, api: str, status: str, seconds: float) -> None:
        """Count a request that has ended.

        Args:
            model: the name of an existing model, or "": names that clients make up would use up
                the memory.
            api: for example "rest/predict".
            status: the HTTP status, or gRPC's name of the code.
            seconds: how long it took.
        """
        key = (model, api, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        histogram = self._seconds.get((model, api))
        if histogram is None:
            histogram = self._seconds[model, api] = Histogram(_SECONDS)
        histogram.add(seconds)

    def count_refused(self, reason: str) -> None:
        """Count a request that was refused because of a limit."""
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def count_batch(self, model: str, rows: int) -> None:
        """Count a batch that ran."""
        histogram = self._rows.get(model)
        if histogram is None:
            histogram = self._rows[model] = Histogram(_ROWS)
        histogram.add(rows)

    def collect(self, manager: ModelManager) -> Iterator[Metric]:
        """Yield the current metrics.

        Args:
            manager: the models.
        """
        yield Metric(
            "graphmill_serving_requests_total", "Requests that ended.", "counter",
            [Sample({"model": m, "api": a, "status": s}, n)
             for (m, a, s), n in self._requests.items()],
        )  # fmt: skip
        yield Metric(
            "graphmill_serving_request_seconds", "Times of requests.", "histogram",
            [s for (m, a), histogram in self._seconds.items()
             for s in histogram.samples({"model": m, "api": a})],
        )  # fmt: skip
        yield Metric(
            "graphmill_serving_batch_rows", "Rows of the batches that ran.", "histogram",
            [s for m, histogram in self._rows.items() for s in histogram.samples({"model": m})],
        )  # fmt: skip
        yield Metric(
            "graphmill_serving_refused_total", "Requests refused because of a limit.", "counter",
            [Sample({"reason": reason}, number) for reason, number in self.refused.items()],
        )  # fmt: skip
        yield Metric(
            "graphmill_serving_requests_in_flight", "Requests in progress.", "gauge",
            [Sample({}, self.in_flight)],
        )  # fmt: skip
        yield Metric(
            "graphmill_serving_pending_bytes", "Bytes of bodies of requests in progress.", "gauge",
            [Sample({}, self.pending_bytes)],
        )  # fmt: skip
        versions = list(manager.versions())
        yield Metric(
            "graphmill_serving_queue_length", "Requests that wait for a model.", "gauge",
            [Sample({"model": v.model, "version": str(v.number)}, v.queue_length())
             for v in versions],
        )  # fmt: skip
        yield Metric(
            "graphmill_serving_model_state", "1 for the state of each version of a model.", "gauge",
            [Sample({"model": v.model, "version": str(v.number), "state": v.state.name}, 1)
             for v in versions],
        )  # fmt: skip
