"""`ReplayFactory`: the DEFAULT executor with a chosen kernel schedule."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from graphmill.spi import (
    ControlFlow,
    Executor,
    ExecutorFactory,
    OpKernel,
    errors,
    plugin_settings,
)
from graphmill.spi.executors import WrappingExecutor, executor_over, outcome_of
from graphmill.spi.graphs import is_constant, is_transfer
from graphmill_replay.races import Race, races
from graphmill_replay.schedule import Scheduler

if TYPE_CHECKING:
    from graphmill.spi import ExecutorArgs, Graph, LocalExecutorParams, Node

_log = logging.getLogger("graphmill_replay")
_MODES: Final = ("record", "replay", "explore")


@dataclass(frozen=True, slots=True)
class Settings:
    """The "replay" section of the session's configuration.

    Attributes:
        mode: "record" (the executor's own order), "replay" (the order in `path`), "explore" (an
            order drawn from `seed`).
        path: the file that the schedule is written to or read from; empty for none.
        seed: selects the order of "explore".
    """

    mode: str = "record"
    path: str = ""
    seed: int = 0

    @classmethod
    def of(cls, config: Any) -> Settings:
        """Read the settings.

        Raises:
            InvalidArgumentError: a setting or its value is unknown, or "replay" has no path.
        """
        given = plugin_settings(config, "replay")
        unknown = sorted(set(given) - {"mode", "path", "seed"})
        if unknown:
            raise errors.InvalidArgumentError(
                f"replay has no setting {unknown[0]!r}; use mode, path or seed"
            )
        settings = cls(**given)
        if settings.mode not in _MODES:
            raise errors.InvalidArgumentError(
                f"replay: mode is {settings.mode!r}, not one of {_MODES}"
            )
        if settings.mode == "replay" and not settings.path:
            raise errors.InvalidArgumentError("replay: set path to the schedule to replay")
        return settings


@dataclass(slots=True)
class _Step:
    scheduler: Scheduler
    recording: _Recording
    index: int
    parts: int = 0
    races: dict[Race, None] = field(default_factory=dict)


class _Recording:
    """The recorded steps of one session, in order of their start.

    Threads: guarded by the factory's lock, except `record_step`.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.steps: dict[int, dict[str, Any]] = {}
        self._count = 0
        self._schedules = read_schedules(settings.path) if settings.mode == "replay" else []

    def next_step(self) -> _Step:
        """Return the next step with its scheduler."""
        index, mode = self._count, self.settings.mode
        self._count += 1
        if mode == "replay":
            schedule = self._schedules[index] if index < len(self._schedules) else []
            return _Step(Scheduler(schedule=schedule), self, index)
        seed = self.settings.seed + index if mode == "explore" else None
        return _Step(Scheduler(seed=seed), self, index)

    def record_step(self, step: _Step) -> None:
        """Report the races of a step and write all steps so far."""
        ran = {node for node, _ in step.scheduler.order}
        found = [race for race in step.races if race.first in ran and race.second in ran]
        for race in found:
            _log.warning("%s", race)
        if self.settings.path and self.settings.mode != "replay":
            races = [race.as_dict() for race in found]
            self.steps[step.index] = {"order": step.scheduler.order, "races": races}
            data = {"steps": [self.steps[index] for index in sorted(self.steps)]}
            text = json.dumps(data, indent=1) + "\n"
            Path(self.settings.path).write_text(text, encoding="utf-8")


class ReplayFactory(ExecutorFactory):
    """Creates executors with a reproducible schedule; registered as `"REPLAY"`.

    Threads: `_lock` guards the table of running steps.
    """

    forbids_passes = ("common_subexpressions", "function_inlining")  # they rename nodes

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[int, _Step] = {}
        # Keyed by a session's `session_state`, which lives as long as the session.
        self._recordings: WeakKeyDictionary[Any, _Recording] = WeakKeyDictionary()

    def new_executor(self, params: LocalExecutorParams, graph: Graph) -> Executor:
        """Return an executor of `graph`.

        Raises:
            InvalidArgumentError: the settings are wrong.
        """
        settings = Settings.of(params.config)

        def wrap(node: Node, kernel: OpKernel) -> OpKernel:
            if _is_scheduled_by_executor(node) or kernel.definition.async_:
                return kernel
            return self._scheduled(kernel)

        inner = executor_over(params, graph, wrap)
        return _ReplayExecutor(self, inner, settings, races(graph))

    def begin(self, args: ExecutorArgs, settings: Settings, found: list[Race]) -> None:
        """Record the start of a partition or function of a step."""
        with self._lock:
            step = self._steps.get(args.step_id)
            if step is None:
                recording = self._recordings.get(args.session_state)
                if recording is None:
                    recording = self._recordings[args.session_state] = _Recording(settings)
                step = self._steps[args.step_id] = recording.next_step()
            step.parts += 1
            step.races.update(dict.fromkeys(found))

    def end(self, step_id: int) -> None:
        """Record the end of a partition or function; the last one writes the step."""
        with self._lock:
            step = self._steps[step_id]
            step.parts -= 1
            if step.parts:
                return
            del self._steps[step_id]
        step.recording.record_step(step)

    def _scheduled(self, kernel: OpKernel) -> OpKernel:
        compute, is_stateful = kernel.compute, kernel.definition.stateful

        def call(ctx: Any, *inputs: Any, done: Any) -> None:
            def start() -> None:
                done(*outcome_of(compute, *((ctx, *inputs) if is_stateful else inputs)))

            scheduler = self._steps[ctx.step_id].scheduler
            key = (ctx.node_name, ctx.iteration_name)
            scheduler.announce(key, ctx.args.runner, start, done)

        return kernel.with_call(call, stateful=True, async_=True)


def _is_scheduled_by_executor(node: Node) -> bool:
    """Return whether executors treat a node specially: control flow, transfers, constants."""
    traits = node.op_def.traits
    is_flow = traits.control_flow is not ControlFlow.NONE
    return is_flow or is_transfer(node) or is_constant(node)


class _ReplayExecutor(WrappingExecutor):
    def __init__(
        self, factory: ReplayFactory, inner: Executor, settings: Settings, found: list[Race]
    ) -> None:
        super().__init__(inner)
        self._factory = factory
        self._settings = settings
        self._races = found

    def begin(self, args: ExecutorArgs) -> None:
        self._factory.begin(args, self._settings, self._races)

    def end(self, args: ExecutorArgs) -> None:
        self._factory.end(args.step_id)


def read_schedules(path: str) -> list[list[tuple[str, str]]]:
    """Return the orders of the steps in a file.

    Raises:
        NotFoundError: there is no such file.
        DataLossError: the file has no schedules.
    """
    try:
        steps = json.loads(Path(path).read_text("utf-8"))["steps"]
        return [[(str(node), str(at)) for node, at in step["order"]] for step in steps]
    except FileNotFoundError:
        raise errors.NotFoundError(f"there is no schedule {path}; record one first") from None
    except (ValueError, KeyError, TypeError) as error:
        raise errors.DataLossError(f"{path} is not a schedule: {error}") from error
