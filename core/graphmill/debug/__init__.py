"""Step through a graph node by node, and record what happens in a step.

    x = F.placeholder("float32", [2])
    y = graphmill.ops.math.log(x, name="y")
    with graphmill.debug.Debugger(session, y, {x: [1.0, 0.0]}) as debugger:
        debugger.break_on_nan()
        print(debugger.resume())  # breakpoint 1 (nan *) after 1: y (Log) -> float32[2] [0.0, -inf]

    recording = graphmill.debug.record(session, y, {x: [1.0, 0.0]})
    graphmill.debug.save(recording, "step.gmrec")

`graphmill debug` does this on the command line. See docs/howto/debug.md.
"""

from __future__ import annotations

from graphmill.debug.breakpoints import Breakpoint
from graphmill.debug.debugger import Debugger, record
from graphmill.debug.player import Player, Stop
from graphmill.debug.recording import Event, Instance, Recording, WaitingNode
from graphmill.debug.recording_file import load, save
from graphmill.debug.statistics import Statistics, statistics_of
from graphmill.debug.step_replay import Replay, ReplayDifference, replay
from graphmill.debug.values import RecordedValue

__all__ = [
    "Breakpoint",
    "Debugger",
    "Event",
    "Instance",
    "Player",
    "RecordedValue",
    "Recording",
    "Replay",
    "ReplayDifference",
    "Statistics",
    "Stop",
    "WaitingNode",
    "load",
    "record",
    "replay",
    "save",
    "statistics_of",
]
