"""Random op instances are readable, reproducible and differ from their cases."""

from __future__ import annotations

import random

import pytest

from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.testing.case import load_cases, parse_cases
from graphmill.testing.case_inputs import parse_input
from graphmill.testing.case_writer import case_text, table_of
from graphmill.testing.differential.op_instances import Accepted, accepted, classify
from graphmill.testing.generators import op_values
from graphmill.testing.generators.op_instances import Sweep, is_swept
from graphmill.testing.golden import CaseResult
from graphmill.testing.runners.subprocess_runner import CRASHED, HANGS, NOT_APPLICABLE

OPS = OpRegistry()
SEEDS = [case for case in load_cases(families=["math"]) if case.op == "AddV2"]
TEXT = '[[Neg]]\nin = ["float32: [1.0, -2.0]"]'


def instances(seed: int, op: str = "AddV2", seeds=SEEDS) -> list[str]:
    return list(Sweep(OPS.get(op), seeds, seed).texts(30))


def numbers(*values: float) -> CaseResult:
    import numpy as np

    return CaseResult((np.array(values, np.float32),), ("float32",))


def test_a_seed_gives_the_same_instances():
    assert instances(3) == instances(3) != instances(4)


def test_instances_can_be_read_and_drawn():
    for text in instances(0):
        (case,) = parse_cases(text, "sweep")
        assert len(case.values()) == 2


def test_instances_are_new_and_of_many_types_and_shapes():
    drawn = [next(parse_cases(text, "sweep")) for text in instances(0)]
    assert len({case.inputs[0].dtype for case in drawn}) > 4
    assert len({case.values()[0].shape for case in drawn}) > 4


@pytest.mark.parametrize("stem", ["math", "state", "array.join"])
def test_case_text_round_trips(stem):
    for case in load_cases(stems=[stem])[::7]:
        (again,) = parse_cases(case_text(case.op, table_of(case)), stem)
        assert spellings(again) == spellings(case)
        assert (again.attrs, again.unspecified) == (case.attrs, case.unspecified)
        assert again.program is None or again.program.nodes == case.program.nodes


def spellings(case):
    inputs = list(case.program.feed.values()) if case.program else list(case.inputs)
    return [[one.text for one in tree] if isinstance(tree, tuple) else tree.text for tree in inputs]


def test_complex_values_become_others_if_the_dtype_is_real():
    text = op_values.retyped("complex64: [1+2j, 3]", "float32")
    assert parse_input(text, {}, "").values().shape == (2,)
    kept = op_values.retyped("complex64: [1+2j, 3]", "complex128")
    assert parse_input(kept, {}, "").values().tolist() == [1 + 2j, 3]


def test_values_that_were_written_out_survive_another_type():
    assert parse_input(op_values.retyped("int32: [1, 2]", "float16"), {}, "").values().tolist() == [
        1.0,
        2.0,
    ]


def test_a_changed_shape_keeps_indices_in_range():
    drawn = [op_values.reshaped(random.Random(n), "int32: [0, 3]", (5,)) for n in range(9)]
    assert sum(text == "int32[5] 0..3" for text in drawn) > 4


def test_ops_that_touch_the_system_are_left_out():
    assert is_swept(OPS.get("AddV2"))
    assert not is_swept(OPS.get("WriteFile"))
    assert not is_swept(OPS.get("PyFunc"))
    assert not is_swept(OPS.get("MapDataset"))


@pytest.mark.parametrize(
    ("theirs", "ours", "outcome"),
    [
        (numbers(-1, 2), numbers(-1, 2), "agree"),
        (numbers(-1, 2), numbers(-1, 3), "differ"),
        (numbers(-1, 2), CaseResult(error="InvalidArgument"), "differ"),
        (CaseResult(error="InvalidArgument"), numbers(-1, 2), "differ"),
        (CaseResult(error="NotFound"), CaseResult(error="NotFound"), "agree on an error"),
        (
            CaseResult(error="InvalidArgument"),
            CaseResult(error="Unimplemented"),
            "refuse with another class",
        ),
        (CaseResult(error="InvalidArgument"), CaseResult(error="OutOfRange"), "differ"),
        (CaseResult(error=CRASHED), numbers(1), "end TensorFlow"),
        (CaseResult(error=HANGS), numbers(1), "end TensorFlow"),
        (numbers(1), CaseResult(error=HANGS), "differ"),
        (numbers(1), CaseResult(error=NOT_APPLICABLE), "not applicable"),
    ],
)
def test_results_are_classified(theirs, ours, outcome):
    assert classify(TEXT, theirs, lambda _: ours, "session")[0] == outcome


def test_known_difference_is_not_a_failure():
    theirs, ours = numbers(0, 2), numbers(1, 2)
    text = '[[Round]]\nin = ["int64: [1, 2]"]'
    whole = CaseResult(tuple(v.astype("int64") for v in theirs.outputs), ("int64",))
    mine = CaseResult(tuple(v.astype("int64") for v in ours.outputs), ("int64",))
    assert classify(text, whole, lambda _: mine, "session")[0] == "differ for a known reason"


def test_every_known_difference_has_a_reason():
    assert all(entry.why for entry in accepted())


@pytest.mark.parametrize(
    ("text", "message", "covered"),
    [("in = [nan]", "in range", True), ("in = [1]", "in range", False), ("in = [nan]", "", False)],
)
def test_known_difference_may_depend_on_instance_and_message(text, message, covered):
    entry = Accepted("^Sin expected", "why", instance="nan", tensorflow="range")
    assert entry.covers("Sin", "expected a result", text, message) is covered


def test_numbers_are_drawn_from_a_seed():
    ops = OpRegistry()
    cases = [case for case in load_cases() if case.op == "RandomUniform"]
    texts = list(Sweep(ops.get("RandomUniform"), cases, 3).texts(30))
    assert texts
    assert all("seed" in text or "shape" in text for text in texts)
