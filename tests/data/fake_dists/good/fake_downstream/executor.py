"""An executor that no test creates."""

from __future__ import annotations

from graphmill.runtime.executor import ExecutorFactory


class SequentialExecutorFactory(ExecutorFactory):
    def new_executor(self, params, graph):
        raise NotImplementedError
