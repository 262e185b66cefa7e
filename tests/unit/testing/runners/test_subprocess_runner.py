"""Cases in a subprocess: results are returned, crashes and hangs are reported."""

from __future__ import annotations

import pytest

from graphmill.testing.runners.subprocess_runner import HANGS, NO_CASE, CaseProcess


@pytest.fixture(scope="module")
def process():
    with CaseProcess("numpy") as made:
        yield made


def test_result_round_trips(process):
    result = process.run('[[Neg]]\nin = ["float32: [1.0, -2.0]"]')
    assert [value.tolist() for value in result.outputs] == [[-1.0, 2.0]]


def test_error_round_trips(process):
    assert process.run('[[Reshape]]\nin = ["float32[3]", "int32: [2]"]').error == "InvalidArgument"


def test_invalid_case_is_reported(process):
    assert process.run('[[Neg]]\nin = ["float32[2] sideways"]').error == NO_CASE


def test_timed_out_case_is_killed_and_next_one_runs():
    with CaseProcess("session", seconds=2) as waiting:
        types = "component_types=[float32]"
        nodes = f'"q = FIFOQueueV2({types})", "d = QueueDequeueV2(q, {types})"'
        text = f'[[QueueDequeueV2]]\nfeed = {{}}\nnodes = [{nodes}]\nrun = ["d"]'
        assert waiting.run(text).error == HANGS
        assert waiting.run('[[Neg]]\nin = ["float32: [1.0]"]').outputs[0].tolist() == [-1.0]
