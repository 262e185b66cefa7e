"""Frame ids in rendezvous keys equal those of TensorFlow's executor."""

from __future__ import annotations

import pytest

from graphmill.runtime.steps.frame_ids import ROOT_FRAME_ID, child_frame_id, hash64


# From `tf.raw_ops.StringToHashBucket` of TensorFlow 2.21 with 2**63 - 1 buckets.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", 105434511174508092),
        (b"w", 3704796705778233802),
        (b"12345678", 421129128932463287),
        (b"outer/inner/while_context", 1373102107847686002),
        (b"\xff" * 37, 9088270062317011025),
    ],
)
def test_hash64_is_that_of_tensorflow(text: bytes, expected: int) -> None:
    assert hash64(text) % (2**63 - 1) == expected


def test_frame_ids_are_those_that_tensorflow_sends() -> None:
    # Logged by TensorFlow 2.21 (TF_CPP_VMODULE=sendrecv_ops=2) for a loop in a loop.
    outer = child_frame_id(ROOT_FRAME_ID, 0, "outer/while_context")
    inner = [child_frame_id(outer, number, "outer/inner/while_context") for number in range(3)]
    assert inner == [10647713286725882191, 10647713286725883216, 10647713286725884237]


def test_frame_ids_distinguish_iterations_and_names() -> None:
    ids = {child_frame_id(0, number, name) for number in range(50) for name in ("a", "b", "")}
    assert len(ids) == 150
