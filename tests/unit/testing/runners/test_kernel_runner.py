"""Runners of cases return results and errors."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.runtime.kernels.kernel import kernel
from graphmill.runtime.kernels.kernel_registry import KernelRegistry
from graphmill.testing.case import parse_cases
from graphmill.testing.runners.jax_runner import JaxRunner
from graphmill.testing.runners.kernel_runner import KernelRunner, NoKernelError, NotApplicableError


def case(text):
    (made,) = parse_cases(text, "made")
    return made


def registry(*kernels):
    made = KernelRegistry()
    for function in kernels:
        made.add(function)
    return made


def run(text, *kernels, runner=KernelRunner):
    return runner(OpRegistry(), registry(*kernels)).run(case(text))


NEG = '[[Neg]]\nin = ["float32: [1, 2]"]'


@kernel("Neg")
def negate(xp, x):
    return xp.negative(x)


def test_result_is_that_of_the_kernel():
    result = run(NEG, negate)
    assert result.outputs[0].tolist() == [-1, -2]
    assert result.dtypes == ("float32",)


def test_attrs_are_inferred_and_lists_grouped():
    @kernel("Pack")
    def pack(xp, values, axis):
        return xp.stack(values, axis)

    result = run('[[Pack]]\nin = [["int32: 1", "int32: 2"]]', pack)
    assert result.outputs[0].tolist() == [1, 2]


def test_a_wrong_dtype_shows():
    @kernel("Neg")
    def wide(xp, x):
        return xp.negative(x.astype(np.float64))

    assert run(NEG, wide).dtypes == ("float64 (op says float32)",)


def test_kernel_fault_is_shown_in_brackets():
    @kernel("Neg")
    def broken(xp, x):
        raise KeyError("oops")

    assert run(NEG, broken).error == "<KeyError>"


def test_numpy_error_is_invalid_argument():
    @kernel("AddV2")
    def add(xp, x, y):
        return xp.add(x, y)

    assert run('[[AddV2]]\nin = ["float32[2]", "float32[3]"]', add).error == "InvalidArgument"


def test_a_missing_kernel_differs_from_unsupported_types():
    with pytest.raises(NoKernelError):
        run(NEG)

    @kernel("Neg", types={"T": ["int32"]})
    def integers(xp, x):
        return -x

    assert run(NEG, integers).error == "NotFound"


def test_stateful_kernels_and_programs_need_a_session():
    @kernel("Neg", stateful=True)
    def stateful(ctx, x):
        return x

    with pytest.raises(NotApplicableError, match="session"):
        run(NEG, stateful)
    with pytest.raises(NotApplicableError, match="session"):
        run('[[Neg]]\nnodes = ["y = Neg(x)"]\nrun = ["y"]', negate)


@pytest.mark.jax
def test_jax_compiles_with_static_inputs_known():
    pytest.importorskip("jax")

    @kernel("Reshape", static=("shape",))
    def reshape(xp, x, shape):
        return xp.reshape(x, tuple(shape.tolist()))

    result = run('[[Reshape]]\nin = ["float64[2,3]", [3, 2]]', reshape, runner=JaxRunner)
    assert result.outputs[0].shape == (3, 2)
    assert result.dtypes == ("float64",)


@pytest.mark.jax
def test_host_kernels_and_strings_are_not_applicable_on_jax():
    pytest.importorskip("jax")

    @kernel("Neg", host=True)
    def host_only(xp, x):
        return -x

    with pytest.raises(NotApplicableError, match="host"):
        run(NEG, host_only, runner=JaxRunner)

    @kernel("Identity")
    def identity(xp, x):
        return x

    with pytest.raises(NotApplicableError, match="host"):
        run('[[Identity]]\nin = ["string[2]"]', identity, runner=JaxRunner)


@pytest.mark.jax
def test_one_bad_case_does_not_hide_the_others():
    pytest.importorskip("jax")

    @kernel("Neg")
    def picky(xp, x):
        if x.shape == (2,):
            raise KeyError("oops")
        return xp.negative(x)

    cases = list(parse_cases('[[Neg]]\neach.in = [["float32[2]"], ["float32[3]"]]', "made"))
    results = JaxRunner(OpRegistry(), registry(picky)).run_many(cases)
    assert [results[c.id].error for c in cases] == ["<KeyError>", ""]


def test_a_session_s_errors_must_name_the_node(make_runner, make_cases):
    (bad,) = make_cases('[[AddV2]]\nin = ["float32[2]", "float32[3]"]')
    assert make_runner("session").run(bad).error == "InvalidArgument"
