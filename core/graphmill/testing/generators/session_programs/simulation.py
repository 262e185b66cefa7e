"""Predict which steps of a program wait, and whether its outcome is defined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.testing.generators.session_programs.program import Pending, Run, Step
from graphmill.testing.generators.session_programs.resource import Outcome

if TYPE_CHECKING:
    from graphmill.testing.generators.session_programs.program import Call, Program
    from graphmill.testing.generators.session_programs.resource import Model, Resource


class Simulation:
    """The models of the resources of all sessions.

    Args:
        resources: the resources of the graph.
    """

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        self._resources = {resource.name: resource for resource in resources}
        self._models: dict[tuple[int, str], Model] = {}

    def outcome(self, call: Call) -> Outcome:
        """Return the outcome of a call, and apply the call unless it is undefined.

        A call of several steps is defined if each of them succeeds: what one step has done when
        another one fails depends on threads.
        """
        if isinstance(call, Pending):
            return self._pending(call)
        if not isinstance(call, Run):
            return Outcome.MAY_FAIL
        outcomes = [self._peek(call.session, step) for step in call.steps]
        if len(outcomes) > 1 and any(one is not Outcome.OK for one in outcomes):
            return Outcome.UNDEFINED
        (first, *_) = outcomes
        if first is Outcome.WAITS and not self._may_time_out(call):
            return Outcome.UNDEFINED
        for step in call.steps:
            self._model(call.session, step).apply(step.event)
        return first

    def _pending(self, call: Pending) -> Outcome:
        """Check that the first step waits for the second one, whichever starts first."""
        if self._peek(call.session, call.waiting) is not Outcome.WAITS:
            return Outcome.UNDEFINED
        model = self._model(call.session, call.release).copy()
        if model.apply(call.release.event) is not Outcome.OK:
            return Outcome.UNDEFINED
        if model.apply(call.waiting.event) not in (Outcome.OK, Outcome.MAY_FAIL):
            return Outcome.UNDEFINED
        self._models[call.session, call.release.resource] = model
        return Outcome.OK

    def _may_time_out(self, call: Run) -> bool:
        (step,) = call.steps
        return call.way == "run" and self._resources[step.resource].can_time_out

    def _peek(self, session: int, step: Step) -> Outcome:
        return self._model(session, step).copy().apply(step.event)

    def _model(self, session: int, step: Step) -> Model:
        key = session, step.resource
        if key not in self._models:
            self._models[key] = self._resources[step.resource].model()
        return self._models[key]


def outcomes(program: Program) -> list[Outcome]:
    """Return the outcome of each call of a program."""
    simulation = Simulation(program.resources)
    return [simulation.outcome(call) for call in program.calls]


def is_defined(program: Program) -> bool:
    """Return whether two systems must agree about a program."""
    return Outcome.UNDEFINED not in outcomes(program)
