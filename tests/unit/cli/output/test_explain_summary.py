"""The lines below the table of `graphmill explain`."""

from __future__ import annotations

import pytest

from graphmill.cli.output.explain_summary import policy_text, summary_lines
from graphmill.explain.step import NodeRecord

ONLY = "; it may do nothing else but compute."
THREE = "list folders in /m, read files in /m and communicate with other machines"


def record(device: str = "CPU:0", tier: str = "interpreted", why: str = "why") -> NodeRecord:
    return NodeRecord(
        *("n", "Neg", f"/job:localhost/replica:0/task:0/device:{device}", "", "neg", "", "", ()),
        tier=tier,
        tier_reason=why,
    )


@pytest.mark.parametrize(
    ("allowed", "text"),
    [
        (None, "The model may do everything that this process may do."),
        ((), "The model may compute; it may do nothing else."),
        (("fs.read:/m",), f"The model may read files in /m{ONLY}"),
        (("fs.list:/m", "fs.read:/m", "net"), f"The model may {THREE}{ONLY}"),
        (("fs.write",), f"The model may write files everywhere{ONLY}"),
    ],
)
def test_policy_is_said_in_words(allowed: tuple[str, ...] | None, text: str) -> None:
    assert policy_text(allowed) == text


def test_one_device_and_reason_are_one_line() -> None:
    records = [record(), record()]
    assert summary_lines(records, has_run=False) == ["2 nodes on CPU:0; not run yet; why"]
    assert summary_lines(records, has_run=True) == ["2 nodes on CPU:0; 2 interpreted; why"]


def test_several_devices_and_reasons_are_counted() -> None:
    records = [record(), record("GPU:0", "compiled", "because"), record()]
    assert summary_lines(records, has_run=True) == [
        "3 nodes: 2 on CPU:0, 1 on GPU:0; 2 interpreted, 1 compiled",
        "2 nodes: why",
        "1 nodes: because",
    ]
