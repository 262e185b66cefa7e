"""Case files: tables, sweeps, ids, digests."""

from __future__ import annotations

import pytest

from graphmill.testing.case import load_cases, parse_cases
from graphmill.testing.case_inputs import SpecError


def parse(text):
    return list(parse_cases(text, "math.part"))


def test_a_sweep_is_a_product():
    cases = parse(
        '[[Add]]\neach.T = ["float32", "int32"]\neach.in = [["T[2]", "T[2]"], ["T[0]", "T[1]"]]\n'
    )
    assert [c.id for c in cases] == [
        "Add/part.0/float32/0",
        "Add/part.0/float32/1",
        "Add/part.0/int32/0",
        "Add/part.0/int32/1",
    ]
    assert [c.inputs[0].dtype for c in cases] == ["float32", "float32", "int32", "int32"]


def test_kernel_table_may_cover_several_ops():
    cases = parse('[["Sin Cos"]]\nin = ["float32[2]"]\n')
    assert [(c.op, c.id) for c in cases] == [("Sin", "Sin/part.0"), ("Cos", "Cos/part.0")]


def test_each_case_merges_keys_that_go_together():
    (a, b) = parse(
        '[[Sum]]\neach.case = [{ in = ["int32[2]", 0] }, { in = ["int32[2]", 1], error = "X" }]\n'
    )
    assert (a.error, b.error) == ("", "X")


def test_keys_that_are_not_reserved_are_attrs():
    (case,) = parse(
        '[[MatMul]]\nin = ["int32[2,2]", "int32[2,2]"]\ntranspose_a = true\nerror = "Internal"\n'
    )
    assert dict(case.attrs) == {"transpose_a": True}
    assert case.family == "math"


def test_a_list_of_strings_is_a_list_input():
    (case,) = parse('[[Pack]]\nin = [["int32[2]", "int32[2]"]]\n')
    assert isinstance(case.inputs[0], tuple)
    assert [v.shape for v in case.values()[0]] == [(2,), (2,)]


def test_other_cases_do_not_change_a_digest():
    (alone,) = parse('[[Neg]]\nin = ["float32[3]"]\n')
    (_, second) = parse('[[Neg]]\nin = ["int8[3]"]\n[[Neg]]\nin = ["float32[3]"]\n')
    assert alone.digest == second.digest


def test_relevant_changes_alter_the_digest():
    texts = [
        '[[Neg]]\nin = ["float32[3]"]',
        '[[Abs]]\nin = ["float32[3]"]',
        '[[Neg]]\nin = ["float32[4]"]',
        '[[Neg]]\nin = ["float32[3]"]\ndraw = 2',
        '[[Neg]]\nin = ["float32[3]"]\nT = "float32"',
    ]
    assert len({parse(text)[0].digest for text in texts}) == len(texts)


def test_irrelevant_changes_keep_the_digest():
    a = parse('[[Neg]]\nin = ["float32[3]"]')[0]
    b = parse('[[Neg]]\nin = ["float32[3]"]\nlabel = "x"\nskip = { jax = "why" }')[0]
    assert a.digest == b.digest


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[Neg]\nin = []", r"write \[\[Neg\]\]"),
        ("[[Neg]\n", "is not TOML"),
        ('[[Neg]]\nin = ["x[2]"]', "table 0 of Neg: .*not a dtype"),
        ('[[Neg]]\ncompare = "roughly"', "compare"),
        ('[[Neg]]\nskip = { gpu = "why" }', "skip names"),
    ],
)
def test_a_wrong_table_is_named(text, says):
    with pytest.raises(SpecError, match=says):
        parse(text)


def test_two_cases_of_one_id_are_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text('[[Neg]]\nin = ["float32[2]"]\n')
    with pytest.raises(SpecError, match=r"a\.toml and b\.toml"):
        load_cases(folder=tmp_path)


def test_the_shipped_cases_load():
    assert len(load_cases()) > 300
    assert {c.family for c in load_cases(families=["array"])} == {"array"}
