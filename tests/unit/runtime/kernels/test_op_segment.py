"""Stateful kernels of a session (clause E11)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphmill.errors import CancelledError
from graphmill.runtime.kernels.op_segment import OpSegment, StatefulKernels
from graphmill.runtime.resources.resource_mgr import ResourceMgr


def test_e11_a_kernel_is_made_once_for_a_node() -> None:
    segment = StatefulKernels()
    made = segment.find_or_create("a", SimpleNamespace)
    assert segment.find_or_create("a", SimpleNamespace) is made
    assert segment.find_or_create("b", SimpleNamespace) is not made


def test_e11_first_of_concurrent_kernels_wins() -> None:
    segment = StatefulKernels()
    first: list[Any] = []

    def slow() -> Any:
        first.append(segment.find_or_create("a", SimpleNamespace))  # another thread meanwhile
        return SimpleNamespace()

    assert segment.find_or_create("a", slow) is first[0]


def test_e11_kernel_that_cannot_be_created_is_not_cached() -> None:
    segment = StatefulKernels()

    def fail() -> Any:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        segment.find_or_create("a", fail)
    assert segment.find_or_create("a", SimpleNamespace) is not None


def test_e11_all_kernels_are_dropped_at_once() -> None:
    segment = StatefulKernels()
    made = segment.find_or_create("a", SimpleNamespace)
    segment.clear()
    assert segment.find_or_create("a", SimpleNamespace) is not made


def test_e11_sessions_have_kernels_of_their_own() -> None:
    segment = OpSegment()
    for session in ("one", "other"):
        segment.add_hold(session)
    made = segment.of_session("one").find_or_create("a", SimpleNamespace)
    assert segment.of_session("other").find_or_create("a", SimpleNamespace) is not made
    assert segment.of_session("one").find_or_create("a", SimpleNamespace) is made


def test_e11_kernels_live_until_last_release() -> None:
    segment = OpSegment()
    segment.add_hold("one")
    segment.add_hold("one")
    made = segment.of_session("one").find_or_create("a", SimpleNamespace)
    segment.remove_hold("one")
    assert segment.of_session("one").find_or_create("a", SimpleNamespace) is made
    segment.remove_hold("one")
    with pytest.raises(CancelledError, match="Session 'one' has been closed"):
        segment.of_session("one")


def test_e11_releasing_unknown_session_is_harmless() -> None:
    segment = OpSegment()
    segment.remove_hold("one")
    segment.add_hold("one")
    assert segment.of_session("one") is not None


def test_e11_private_resources_end_with_last_hold() -> None:
    segment, resources = OpSegment(), ResourceMgr()
    for session in ("one", "one", "other"):
        segment.add_hold(session)
    containers = [
        segment.of_session(session).private_container(resources) for session in ("one", "other")
    ]
    for container in containers:
        resources.create(container, "queue", SimpleNamespace())
    segment.remove_hold("one")
    assert sorted(resources.containers()) == sorted(containers)
    segment.remove_hold("one")
    assert resources.containers() == containers[1:]
    segment.clear()
    assert resources.containers() == []


def test_e11_private_resources_of_all_devices_are_deleted() -> None:
    kernels, managers = StatefulKernels(), [ResourceMgr(), ResourceMgr()]
    for resources in managers:
        resources.create(kernels.private_container(resources), "queue", SimpleNamespace())
    kernels.clear()
    assert [resources.containers() for resources in managers] == [[], []]
