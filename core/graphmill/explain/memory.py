"""Compute the lifetimes of node outputs, the bytes alive over time, and the peak of each device.

A `Lifetime` is an output's time from when its node is done until its last consumer is. Times are in
any unit: nanoseconds where steps were measured, positions in the order of execution in forecasts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Lifetime(NamedTuple):
    """The time in which the outputs of a node are held.

    Attributes:
        node: the node that computed them.
        device: the device that holds them.
        num_bytes: their size.
        start, end: when they appear, and when their last consumer is done.
    """

    node: str
    device: str
    num_bytes: int
    start: int
    end: int


class Peak(NamedTuple):
    """The moment at which most bytes are alive on a device.

    Attributes:
        num_bytes: how many bytes are alive.
        time: when; in the unit of the lifetimes.
        holders: what is alive at that moment, the largest first.
    """

    num_bytes: int
    time: int
    holders: tuple[Lifetime, ...]


def alive_bytes(lifetimes: Iterable[Lifetime]) -> Iterator[tuple[int, str, int]]:
    """Yield each change of the bytes alive on a device, in order of time: time, device, bytes."""
    changes = []
    for one in lifetimes:
        changes.append((one.start, -one.num_bytes, one.device))
        changes.append((one.end, one.num_bytes, one.device))
    alive: dict[str, int] = {}
    for time, released, device in sorted(changes):  # what appears comes before what is released
        alive[device] = alive.get(device, 0) - released
        yield time, device, alive[device]


def peaks(lifetimes: Iterable[Lifetime]) -> dict[str, Peak]:
    """Return the peak of each device that holds anything."""
    lifetimes = list(lifetimes)
    highest: dict[str, tuple[int, int]] = {}
    for time, device, alive in alive_bytes(lifetimes):
        if alive > highest.get(device, (0, 0))[0]:
            highest[device] = alive, time
    return {
        device: Peak(num_bytes, time, _holders(lifetimes, device, time))
        for device, (num_bytes, time) in highest.items()
    }


def _holders(lifetimes: Iterable[Lifetime], device: str, time: int) -> tuple[Lifetime, ...]:
    alive = [one for one in lifetimes if one.device == device and one.start <= time <= one.end]
    return tuple(sorted(alive, key=lambda one: (-one.num_bytes, one.node)))
