"""Run cases in graphmill, for the worker."""

from __future__ import annotations

from typing import Any

import graphmill


class Runner:
    """A session of a case, after its initial runs; `step` takes feeds by position."""

    def __init__(self, case: Any, config: dict[str, Any]) -> None:
        if case.device_count:
            config = {"device_count": case.device_count} | config
        options = config or None  # most programs give none, and reading a dict takes a module
        if case.is_saved_model:
            self._owner = graphmill.saved_model.load(case.model, tags=case.tags, config=options)
            self.session = self._owner.session
        else:
            self._owner = self.session = graphmill.Session(graph=case.model, config=options)
        for targets, feeds in case.init_runs:
            self.session.run([], feeds, targets=targets)
        self.step = self.session.make_callable(case.fetches, case.feed_names, targets=case.targets)

    def tier(self) -> str:
        """Return the highest tier that parts of the steps so far ran in."""
        stats = self.session.stats()
        if stats.compiled_calls:
            return "compiled"
        return "straight-line" if stats.straight_calls else "interpreted"

    def close(self) -> None:
        self._owner.close()


def warm_up() -> None:
    """Run a small graph, so that the process's one-time work is done before timing."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2, 2])
        y = x @ x
    with graphmill.Session(graph=graph) as session:
        session.run(y, {x: [[0.0, 0.0], [0.0, 0.0]]})


def versions() -> str:
    import numpy as np

    return f"graphmill {graphmill.__version__}, NumPy {np.__version__}"
