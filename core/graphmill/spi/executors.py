"""What executors share: step stats, validation, the callback that ends a run.

    from graphmill.spi.executors import NodeStats, StepStatsCollector

`Executor` and `ExecutorFactory` are in `graphmill.spi` itself, loop frames in
`graphmill.spi.graphs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.runtime.executor import DoneCallback as DoneCallback
    from graphmill.runtime.step_stats import NodeStats as NodeStats
    from graphmill.runtime.step_stats import StepStatsCollector as StepStatsCollector
    from graphmill.runtime.step_stats import describe_outputs as describe_outputs
    from graphmill.runtime.step_stats import now as now
    from graphmill.runtime.step_stats import thread_id as thread_id
    from graphmill.runtime.validation import is_validation_on as is_validation_on
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.runtime.executor": "DoneCallback",
            "graphmill.runtime.step_stats": (
                "NodeStats StepStatsCollector describe_outputs now thread_id"
            ),
            "graphmill.runtime.validation": "is_validation_on",
        },
    )
