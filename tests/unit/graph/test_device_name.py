"""Device names are parsed, and split into task and device (clause P1)."""

from __future__ import annotations

import pytest

from graphmill import errors
from graphmill.graph.device_name import DeviceName, local_name, parse_device_name, task_of

FULL = "/job:worker/replica:0/task:1/device:GPU:2"


def test_full_names_round_trip() -> None:
    parsed = parse_device_name(FULL)
    assert parsed == DeviceName("worker", 0, 1, "GPU", 2)
    assert parsed.is_complete
    assert str(parsed) == FULL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", DeviceName()),
        ("/task:3", DeviceName(task=3)),
        ("/cpu:0", DeviceName(type="CPU", id=0)),
        ("/device:GPU:*", DeviceName(type="GPU")),
    ],
)
def test_partial_and_old_names_are_parsed(text: str, expected: DeviceName) -> None:
    assert parse_device_name(text) == expected


def test_other_texts_are_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="worker"):
        parse_device_name("worker:0")


def test_a_full_name_is_split_into_task_and_device() -> None:
    assert task_of(FULL) == "/job:worker/replica:0/task:1"
    assert local_name(FULL) == "GPU:2"


def test_a_name_without_a_device_is_its_task_and_its_local_name() -> None:
    assert task_of("/job:worker/task:1") == "/job:worker/task:1"
    assert local_name("CPU:0") == "CPU:0"
