"""`PluginTests`: a plugin's kernels behave as declared in every tier; its gradients are right."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, ClassVar, Final

import pytest

from graphmill.registry import Provenance
from graphmill.runtime.checks.validation import VALIDATE_VARIABLE
from graphmill.testing.case import load_cases, parse_cases
from graphmill.testing.compare import difference
from graphmill.testing.conformance.clauses import clauses
from graphmill.testing.direct_access import direct_accesses
from graphmill.testing.finite_differences import gradient_problems, why_not_checked
from graphmill.testing.runners.kernel_runner import NotApplicableError
from graphmill.testing.runners.tier_runner import TierRunner

if TYPE_CHECKING:
    from graphmill.graph.node import Node
    from graphmill.plugin.host import Host
    from graphmill.testing.case import Case
    from graphmill.testing.runners.tier_runner import TierResult

_TIERS: Final = ("tiered", "eager", "deterministic")


class PluginTests:
    r"""Test that a plugin's kernels agree interpreted and compiled.

        class TestMine(PluginTests):
            ops = ("Relu6",)
            cases = '[[Mine>Scale]]\nin = ["float32[3]"]'

    Each case runs several times in one session under `jit` "off", "tiered" and "eager", and as
    generated code, in validation mode. This finds state that a kernel keeps outside of its
    variables, kernels that write to their inputs, wait for other nodes, open files without the
    broker, or do not raise the error of their `check=`, and lowerings whose outputs differ from
    those of their kernels.

    Gradient functions that a plugin registers are compared with finite differences.

    Attributes:
        ops: TensorFlow ops that the plugin has kernels for; their stored cases are run.
        cases: cases of the plugin's own ops, as in `graphmill.testing.cases`.
        exclude: reasons, by op or case id, for known differences.
    """

    graphmill_suite: ClassVar[str] = "PluginTests"
    ops: ClassVar[tuple[str, ...]] = ()
    cases: ClassVar[str] = ""
    exclude: ClassVar[dict[str, str]] = {}

    @classmethod
    def asked(cls, config: pytest.Config) -> list[Case]:
        """Return the cases: stored ones of `ops`, and `cases`."""
        return [*stored_cases(cls.ops, config), *parse_cases(cls.cases, "own")]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Create one test for each case, and one for all cases of an op."""
        if {"case", "op_cases"}.isdisjoint(metafunc.fixturenames):
            return
        cases = self.asked(metafunc.config)
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", cases, ids=[case.id for case in cases])
        else:
            by_op = {op: [c for c in cases if c.op == op] for op in dict.fromkeys(map(_op, cases))}
            metafunc.parametrize("op_cases", list(by_op.values()), ids=list(by_op))

    @pytest.fixture
    def host(self, graphmill_host: Host) -> Host:
        """Return the host whose kernels are tested; override it to add plugins of your own."""
        return graphmill_host

    @clauses("E6")
    @pytest.mark.parametrize("tier", _TIERS)
    def test_a_case_has_one_result_in_every_tier(
        self, case: Case, tier: str, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Values, types, shapes and errors of compiled and interpreted nodes are the same."""
        self._skip_excluded(case)
        monkeypatch.setenv(VALIDATE_VARIABLE, "1")
        expected, actual = _run(host, "off", case), _run(host, tier, case)
        for run, (expected_result, actual_result) in enumerate(
            zip(expected.results, actual.results, strict=True), 1
        ):
            where = f"op {case.op}{_supplied(host, case.op)}, jit {tier!r}, run {run}"
            assert expected_result.error != "Internal", f"{where}: {expected_result.message}"
            problem = difference(case, expected_result, actual_result, "session")
            assert not problem, f"{where}: {problem}"

    @clauses("E6")
    def test_kernels_with_declared_lowerings_are_compiled(
        self, op_cases: list[Case], host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If the selected kernel declares how it is compiled, at least one case is compiled."""
        if importlib.util.find_spec("jax") is None:
            pytest.skip("nothing is compiled without JAX")
        monkeypatch.setenv(VALIDATE_VARIABLE, "1")
        reasons: list[str] = []
        for case in (case for case in op_cases if not (case.error or self._excluded(case))):
            declared = [n for n in TierRunner(host, "off").nodes(case) if _is_declared(host, n)]
            if not declared:
                continue
            run = _run(host, "eager", case)
            if not run.compiled.isdisjoint(node.name for node in declared):
                return
            reasons += [f"{case.id}: {reason}" for reason in run.reasons or ["no reason given"]]
        if not reasons:
            pytest.skip("no selected kernel declares how it is compiled")
        op = op_cases[0].op
        pytest.fail(
            f"op {op}{_supplied(host, op)} declares how it is compiled, but none of its cases is "
            "compiled:\n  " + "\n  ".join(reasons)
        )

    @clauses("E6")
    def test_kernels_open_files_through_the_broker(self, op_cases: list[Case], host: Host) -> None:
        """Kernels open files through the broker, so that a session's rules apply to them."""
        entries = [e for c in op_cases for e in host.kernels.registrations(host.ops.get(c.op))]
        modules = {entry.definition.function.__module__ for entry in entries}
        with direct_accesses(modules) as accesses:
            for case in op_cases:
                if not self._excluded(case):
                    _run(host, "off", case)
        op = op_cases[0].op
        assert not accesses, (
            f"op {op}{_supplied(host, op)} opens files, connects or starts processes without the "
            f"broker: {', '.join(dict.fromkeys(accesses))}. Declare brokered=True, and use the "
            "keyword argument `broker`"
        )

    def test_gradients_match_finite_differences(self, case: Case, host: Host) -> None:
        """The gradient that a plugin registers for an op is the slope of the op's kernel."""
        self._skip_excluded(case)
        owner = host.gradients.owner_of(host.ops.get(case.op))
        if owner is None or (isinstance(owner, Provenance) and owner.is_builtin):
            pytest.skip(f"no plugin has a gradient for {case.op}")
        reason = why_not_checked(case, host)
        if reason:
            pytest.skip(reason)
        problems = gradient_problems(case, host)
        assert not problems, (
            f"op {case.op}, gradient of {owner}: {'; '.join(problems)}. If the gradient differs "
            f"on purpose, or the case is at a kink, name {case.op} or {case.id} in `exclude`"
        )

    @clauses("E6")
    def test_kernels_and_lowerings_are_for_ops_that_are_defined(self, host: Host) -> None:
        """A registration for an undefined op is an error: the name may be misspelt."""
        named = dict.fromkeys((*self.ops, *(case.op for case in parse_cases(self.cases, "own"))))
        entries = [entry for op in named for entry in host.kernels.registrations(host.ops.get(op))]
        owners = {entry.owner for entry in entries}
        for record in host.plugins:
            for kind in ("kernels", "lowerings") if record.owner in owners else ():
                undefined = record.undefined_ops(kind, host.ops)
                assert not undefined, (
                    f"{record.owner} has {kind} for ops that are not defined: "
                    f"{', '.join(undefined)}. Correct the names, or add the plugin that defines "
                    "them to the tested host"
                )

    def _skip_excluded(self, case: Case) -> None:
        reason = self._excluded(case)
        if reason:
            pytest.skip(reason)

    def _excluded(self, case: Case) -> str | None:
        return self.exclude.get(case.id) or self.exclude.get(case.op)


def stored_cases(ops: tuple[str, ...], config: pytest.Config) -> list[Case]:
    """Return graphmill's stored cases of some ops: all, or every Nth with `--graphmill-every`."""
    every = int(config.getoption("--graphmill-every"))
    return [case for case in load_cases() if case.op in ops][::every] if ops else []


def _op(case: Case) -> str:
    return case.op


def _run(host: Host, tier: str, case: Case) -> TierResult:
    try:
        return TierRunner(host, tier).run_often(case)
    except NotApplicableError as error:
        pytest.skip(str(error))


def _is_declared(host: Host, node: Node) -> bool:
    """Return whether the kernel of a node declares how a compiler computes it."""
    choice = host.kernels.try_find(node.op_def, node.attrs, "CPU", ("numpy",))
    if choice is None:
        return False
    definition = choice.definition
    lowering = host.lowerings.find(node.op, choice.owner, definition.lowering)
    has_function = lowering is not None and lowering.function is not None
    return has_function or definition.traces_variables or definition.keeps_variable


def _supplied(host: Host, op: str) -> str:
    """Return the kernels of an op and their plugins, for messages."""
    entries = host.kernels.registrations(host.ops.get(op))
    named = sorted({f"{entry.definition.source} of {entry.owner}" for entry in entries})
    return f" (kernels: {', '.join(named)})" if named else ""
