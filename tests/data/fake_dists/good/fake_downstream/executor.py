"""An executor that is never made in the tests that use this tree."""

from __future__ import annotations

from graphmill.runtime.executor import ExecutorFactory


class SequentialExecutorFactory(ExecutorFactory):
    def new_executor(self, params, graph):
        raise NotImplementedError
