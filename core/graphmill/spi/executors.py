"""Tools for executors: step stats, validation, steps that are driven node by node.

    from graphmill.spi.executors import NodeStats, StepStatsCollector

`Executor` and `ExecutorFactory` are in `graphmill.spi` itself, loop frames in
`graphmill.spi.graphs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.runtime.checks.validation import is_validation_on as is_validation_on
    from graphmill.runtime.executor import DoneCallback as DoneCallback
    from graphmill.runtime.kernels.kernel_call import call_and_wait as call_and_wait
    from graphmill.runtime.kernels.kernel_call import outcome_of as outcome_of
    from graphmill.runtime.kernels.kernel_call import sync_device as sync_device
    from graphmill.runtime.kernels.kernel_errors import add_iteration as add_iteration
    from graphmill.runtime.kernels.kernel_errors import done_twice as done_twice
    from graphmill.runtime.kernels.kernel_errors import failure_at as failure_at
    from graphmill.runtime.stepping import Caller as Caller
    from graphmill.runtime.stepping import DrivenArgs as DrivenArgs
    from graphmill.runtime.stepping import FrameProgress as FrameProgress
    from graphmill.runtime.stepping import NodeInstance as NodeInstance
    from graphmill.runtime.stepping import PendingCount as PendingCount
    from graphmill.runtime.stepping import StepDriver as StepDriver
    from graphmill.runtime.stepping import SteppableRun as SteppableRun
    from graphmill.runtime.steps.activity import activity as activity
    from graphmill.runtime.steps.activity import is_profiled as is_profiled
    from graphmill.runtime.steps.cancel_grace import (
        CancellationGracePeriod as CancellationGracePeriod,
    )
    from graphmill.runtime.steps.frame_ids import ROOT_FRAME_ID as ROOT_FRAME_ID
    from graphmill.runtime.steps.frame_ids import child_frame_id as child_frame_id
    from graphmill.runtime.steps.memory_log import output_record as output_record
    from graphmill.runtime.steps.memory_log import step_record as step_record
    from graphmill.runtime.steps.step_runner import running as running
    from graphmill.runtime.steps.step_stats import MeasuredCluster as MeasuredCluster
    from graphmill.runtime.steps.step_stats import MeasuredTime as MeasuredTime
    from graphmill.runtime.steps.step_stats import NodeStats as NodeStats
    from graphmill.runtime.steps.step_stats import StepStatsCollector as StepStatsCollector
    from graphmill.runtime.steps.step_stats import TimedRun as TimedRun
    from graphmill.runtime.steps.step_stats import describe_outputs as describe_outputs
    from graphmill.runtime.steps.step_stats import measure_outputs as measure_outputs
    from graphmill.runtime.steps.step_stats import now as now
    from graphmill.runtime.steps.step_stats import record_node as record_node
    from graphmill.runtime.steps.step_stats import thread_id as thread_id
    from graphmill.runtime.wrapping_executor import WrappingExecutor as WrappingExecutor
    from graphmill.runtime.wrapping_executor import executor_over as executor_over
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.runtime.steps.activity": "activity is_profiled",
            "graphmill.runtime.steps.cancel_grace": "CancellationGracePeriod",
            "graphmill.runtime.steps.step_runner": "running",
            "graphmill.runtime.steps.memory_log": "output_record step_record",
            "graphmill.runtime.executor": "DoneCallback",
            "graphmill.runtime.steps.frame_ids": "ROOT_FRAME_ID child_frame_id",
            "graphmill.runtime.kernels.kernel_call": "call_and_wait outcome_of sync_device",
            "graphmill.runtime.kernels.kernel_errors": "add_iteration done_twice failure_at",
            "graphmill.runtime.steps.step_stats": (
                "MeasuredCluster MeasuredTime TimedRun NodeStats StepStatsCollector "
                "describe_outputs measure_outputs now record_node thread_id"
            ),
            "graphmill.runtime.checks.validation": "is_validation_on",
            "graphmill.runtime.stepping": (
                "Caller DrivenArgs FrameProgress NodeInstance PendingCount StepDriver SteppableRun"
            ),
            "graphmill.runtime.wrapping_executor": "WrappingExecutor executor_over",
        },
    )
