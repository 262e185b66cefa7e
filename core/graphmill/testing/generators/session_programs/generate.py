"""Draw programs of clients."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from graphmill.testing.generators.dataflow_graphs import SeededChooser
from graphmill.testing.generators.session_programs.accumulators import Accumulator
from graphmill.testing.generators.session_programs.dataflow import Arithmetic, Arrays
from graphmill.testing.generators.session_programs.datasets import DatasetIterator
from graphmill.testing.generators.session_programs.program import (
    STRUCTURES,
    Close,
    Part,
    Pending,
    Program,
    Run,
    SetUp,
    Step,
    Value,
    Wrong,
)
from graphmill.testing.generators.session_programs.queues import Barrier, Queue
from graphmill.testing.generators.session_programs.resource import Outcome, chance, pick
from graphmill.testing.generators.session_programs.simulation import Simulation
from graphmill.testing.generators.session_programs.staging import MapStagingArea, StagingArea
from graphmill.testing.generators.session_programs.state import (
    Random,
    ReferenceVariable,
    SessionTensors,
    Variable,
)
from graphmill.testing.generators.session_programs.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from graphmill.testing.generators.dataflow_graphs import Chooser
    from graphmill.testing.generators.session_programs.program import Call
    from graphmill.testing.generators.session_programs.resource import Resource

KINDS: Final = (
    *(Queue, Queue, Barrier, StagingArea, MapStagingArea, Accumulator, Table, Variable),
    *(ReferenceVariable, Random, SessionTensors, DatasetIterator, Arrays),
)
"""The kinds of resources; a program has some of them, and arithmetic."""
_TRIES: Final = 6
_MAX_TRIES: Final = 40


def session_program(seed: int, calls: int = 12) -> Program:
    """Draw the program of a seed.

    Args:
        seed: the seed.
        calls: the number of calls.
    """
    return draw_program(SeededChooser(seed), calls, f"session_program({seed}, calls={calls})")


def draw_program(chooser: Chooser, calls: int, name: str) -> Program:
    """Draw a program with the given chooser."""
    chosen = [pick(chooser, KINDS) for _ in range(chooser.integer(1, 3))]
    resources = tuple(kind(f"r{i}", chooser) for i, kind in enumerate(chosen))
    return _Drawer(chooser, (*resources, Arithmetic("m", chooser)), name).program(calls)


class _Drawer:
    """Draws calls, and drops those whose outcome would depend on threads."""

    def __init__(self, chooser: Chooser, resources: tuple[Resource, ...], name: str) -> None:
        self._chooser = chooser
        self._name = name
        self._resources = resources
        self._simulation = Simulation(resources)
        self._num_sessions = 2 if chance(chooser, 4) else 1
        self._setups: list[SetUp] = []

    def program(self, count: int) -> Program:
        calls: list[Call] = []
        if not chance(self._chooser, 4):
            steps = (resource.start(self._chooser) for resource in self._resources)
            calls += self._defined(Run((step,)) for step in steps if step is not None)
        while len(calls) < count:
            calls += itertools.islice(self._defined(self._candidates()), 1)
        if chance(self._chooser, 3):
            session = self._session()
            calls += [Close(session), *([Close(session)] if chance(self._chooser, 4) else [])]
            step = self._step(self._resources[-1])
            last: list[Call] = [Run((step,), session), Wrong("none:0", (), session)]
            calls.append(pick(self._chooser, last))
        return Program(self._name, self._resources, tuple(calls))

    def _defined(self, calls: Iterable[Call]) -> Iterator[Call]:
        """Apply calls to the models; yield those whose outcome is defined."""
        for call in calls:
            if self._simulation.outcome(call) is not Outcome.UNDEFINED:
                yield call

    def _candidates(self) -> Iterator[Call]:
        """Yield one drawn call, or many of a kind whose outcome is rarely defined."""
        which = self._chooser.integer(0, 19)
        if which < 9:
            yield self._run(1)
        elif which < 12:
            yield from (self._run(3) for _ in range(_TRIES))
        elif which < 15:
            yield from self._pending()
        elif which < 17:
            yield self._wrong()
        else:
            yield self._partial()

    def _session(self) -> int:
        return self._chooser.integer(0, self._num_sessions - 1) * chance(self._chooser, 2)

    def _step(self, resource: Resource) -> Step:
        return resource.draw(self._chooser)

    def _run(self, limit: int) -> Call:
        chosen = [pick(self._chooser, self._resources) for _ in range(limit)]
        steps = tuple(self._step(resource) for resource in dict.fromkeys(chosen))
        way = pick(self._chooser, ("run", "run", "run", "run", "callable", "options"))
        structure = pick(self._chooser, STRUCTURES)
        if any(step.label for step in steps) or way == "options":
            structure = "list"
        if any(step.label or _has_handles(step) for step in steps):
            way = "run"
        if any(name.endswith("_three:0") for step in steps for name, _ in step.feeds):
            way = "run"  # TensorFlow's callables do not check shapes
        if structure == "single" and (len(steps) > 1 or not steps[0].fetches):
            structure = "list"
        return Run(steps, self._session(), structure, way)

    def _pending(self) -> Iterator[Call]:
        resource = pick(self._chooser, self._resources[:-1])
        session = self._session()
        for _ in range(_MAX_TRIES):
            waiting, release = self._step(resource), self._step(resource)
            if waiting.targets == release.targets and not waiting.fetches:
                continue
            if release.event[0] == "close" and waiting.event[0] == "put":
                continue  # closing a queue waits for elements that are put
            yield Pending(waiting, release, session)

    def _wrong(self) -> Call:
        number = Value("float32", 1.0)
        strings = Value("string", [b"a", b"b"])
        choices: list[tuple[Any, tuple[tuple[str, Any], ...]]] = [
            ("nothing:0", ()),
            ("nothing", ()),
            ("m_sum:7", ()),
            (["m_tanh:0", "m_tanh:x"], (("m_c:0", number),)),
            (None, ()),
            (3, ()),
            ("m_tanh:0", (("m_c:0", strings),)),
            ("m_tanh:0", (("nothing:0", number),)),
            ("m_tanh:0", (("m_c:3", number),)),
            ("m_void", (("m_a:0", number),)),
            ("m_tanh", (("m_a:0", number),)),
            ([], ()),
            ([[], {}], ()),
            ({"x": ["m_fixed:0", []]}, ()),
            (["m_fixed:0", "m_fixed:0"], ()),
            (["m_three:0", "m_c:0"], (("m_c:0", number),)),
            ("m_fixed:0", (("m_three:0", Value("float32", [1.0, 2.0])),)),
            ("m_fixed:0", (("m_fixed:0", Value("float32", [7.0, 8.0, 9.0])),)),
            ("m_c:0", ()),
            ((), ()),
        ]
        fetches, feeds = pick(self._chooser, choices)
        return Wrong(fetches, feeds, self._session())

    def _partial(self) -> Call:
        arithmetic = self._resources[-1]
        assert isinstance(arithmetic, Arithmetic)
        if not self._setups or chance(self._chooser, 4):
            return self._set_up(arithmetic)
        made = pick(self._chooser, self._setups)
        n = arithmetic.name
        feeds = [
            name
            for name in (*made.feeds, f"{n}_a:0")
            if chance(self._chooser, 2) and (name in made.feeds or chance(self._chooser, 6))
        ]
        fetches = [name for name in made.fetches if chance(self._chooser, 2)]
        if chance(self._chooser, 10):
            fetches.append(f"{n}_tanh:0")
        values = tuple((name, arithmetic.scalar(self._chooser)) for name in dict.fromkeys(feeds))
        return Part(made.label, tuple(dict.fromkeys(fetches)), values, made.session)

    def _set_up(self, arithmetic: Arithmetic) -> SetUp:
        n, names = arithmetic.name, list(arithmetic.NEEDS)
        chosen = dict.fromkeys(pick(self._chooser, names) for _ in range(2))
        needed = dict.fromkeys(letter for name in chosen for letter in arithmetic.NEEDS[name])
        feeds = [f"{n}_{letter}:0" for letter in needed]
        made = SetUp(
            f"p{len(self._setups)}",
            tuple(f"{n}_{name}:0" for name in chosen),
            tuple(feeds),
            self._session(),
        )
        self._setups.append(made)
        return made


def _has_handles(step: Step) -> bool:
    return any(not isinstance(value, Value) for _, value in step.feeds)
