"""The case files are complete: every kernel has cases with up-to-date golden results."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.testing.case import FOLDER, RESERVED, case_files, load_cases
from graphmill.testing.golden import read_results
from graphmill.testing.oracle.cpu_types import cpu_ops
from graphmill.testing.tolerances import tolerances

EXEMPT = tomllib.loads(Path(__file__).with_name("ops_without_cases.toml").read_text("utf-8"))
RESULTS = FOLDER / "results"


def test_every_op_with_a_kernel_has_a_case(graphmill_host):
    covered = {case.op for case in load_cases()}
    missing = set(graphmill_host.kernels.ops()) - covered - set(EXEMPT)
    assert not missing, f"ops with a kernel and without a case: {sorted(missing)}"


def test_no_exempt_op_has_a_case_or_lacks_a_kernel(graphmill_host):
    covered = {case.op for case in load_cases()}
    assert not set(EXEMPT) & covered
    assert set(EXEMPT) <= set(graphmill_host.kernels.ops())


def test_every_exemption_has_a_reason():
    assert all(isinstance(reason, str) and len(reason) > 20 for reason in EXEMPT.values())


def test_every_case_is_of_an_op_with_a_kernel(graphmill_host):
    known = set(graphmill_host.kernels.ops())
    assert not sorted({case.op for case in load_cases()} - known)


@pytest.mark.parametrize("path", case_files(), ids=lambda path: path.stem)
def test_cases_and_golden_results_correspond(path):
    stored = read_results(RESULTS / f"{path.stem}.npz")
    cases = {case.id: case.digest for case in load_cases(stems=[path.stem])}
    assert cases == {case_id: result.digest for case_id, result in stored.items()}, (
        "run tools/make_op_cases.py"
    )


@pytest.mark.parametrize("path", case_files(), ids=lambda path: path.stem)
def test_expected_errors_are_those_of_tensorflow(path):
    stored = read_results(RESULTS / f"{path.stem}.npz")
    for case in load_cases(stems=[path.stem]):
        assert case.differs or stored[case.id].result.error == case.error, case.id


def test_results_belong_to_case_files():
    assert {p.stem for p in RESULTS.glob("*.npz")} <= {p.stem for p in case_files()}


def test_results_stay_small():
    assert sum(path.stat().st_size for path in RESULTS.glob("*.npz")) < 3_000_000


def test_reserved_keys_are_no_attrs_of_any_op():
    ops = OpRegistry()
    attrs = {attr.name for name in ops.names() for attr in ops.get(name).attrs}
    assert not attrs & RESERVED


def test_cases_are_in_the_file_of_their_family():
    ops = OpRegistry()
    assert not {c.op: c.stem for c in load_cases() if ops.get(c.op).family != c.family}


def test_tolerances_are_of_known_ops():
    ops = OpRegistry()
    assert not sorted(set(tolerances()) - set(ops.names()) - {"default"})


def test_deviations_have_reasons():
    for case in load_cases():
        reasons = [*case.skip.values(), *([case.differs] if case.differs else [])]
        reasons += [case.close.why] if case.close else []
        assert all(len(reason) > 20 for reason in reasons), case.id


def test_every_cpu_op_of_tensorflow_has_a_kernel_or_a_reason(graphmill_host):
    lacking = cpu_ops() - set(graphmill_host.kernels.ops())
    assert lacking == set(graphmill_host.kernels.unsupported())
