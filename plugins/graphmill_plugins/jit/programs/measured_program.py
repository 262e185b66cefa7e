"""`MeasuredProgram`: a compiled cluster that measures its nodes in traced steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.spi.executors import MeasuredCluster
from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.programs.compiled_cluster import (
    CompiledCluster,
    ProgramFailedError,
    first_line,
)
from graphmill_plugins.jit.programs.hlo_nodes import OperationNodes
from graphmill_plugins.jit.programs.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ExecutorArgs

_STOPPED = "the program did not run to its end"
_STAGED = "its long loops run as programs of their own"
_SEVERAL = "the program ran more than once at the same time"
_NO_EVENTS = "the profiler reported no operation of the program"


class MeasuredProgram(CompiledCluster):
    """A compiled cluster whose traced runs are profiled, and waited for.

    Attributes:
        measured_as: the cluster under which the times are noted.
        text: the program in XLA's text form.
    """

    measured_as = ""
    text = ""

    def _run(self, arguments: Sequence[Any], step: ExecutorArgs) -> Sequence[Any]:
        collector = step.stats_collector
        if collector is None:
            return super()._run(arguments, step)
        collector.note_measured(self.measured_as, MeasuredCluster({}, _STOPPED))
        profile = Profile()
        profile.start()
        try:
            try:
                outputs = super()._run(arguments, step)
                jax_module().block_until_ready(outputs)
            except jax_module().errors.JaxRuntimeError as error:
                raise ProgramFailedError(first_line(error)) from error
            finally:
                profile.stop()
            collector.note_measured(self.measured_as, self._measured(profile))
        finally:
            profile.close()
        return outputs

    def _measured(self, profile: Profile) -> MeasuredCluster:
        """Return the times of the nodes, or why there are none."""
        if profile.why_not:
            return MeasuredCluster({}, profile.why_not)
        if self._limited is not None and self._limited.is_long:
            return MeasuredCluster({}, _STAGED)
        nodes = OperationNodes(self.text)
        runs = profile.runs(nodes.module)
        if len({run.run_id for run in runs}) > 1:
            return MeasuredCluster({}, _SEVERAL)
        times: dict[str, float] = {}
        for run in runs:
            times[run.operation] = times.get(run.operation, 0.0) + run.nanoseconds
        return MeasuredCluster(nodes.times(times), "" if times else _NO_EVENTS)
