"""`PluginTests`: the kernels of a plugin, held to what they declare in every tier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from graphmill.runtime.validation import VALIDATE_VARIABLE
from graphmill.testing.case import load_cases, parse_cases
from graphmill.testing.compare import difference
from graphmill.testing.conformance.rows import rows
from graphmill.testing.jit_check import jit_config
from graphmill.testing.runner import NotApplicableError
from graphmill.testing.session_runner import SessionRunner

if TYPE_CHECKING:
    from graphmill.plugin.host import Host
    from graphmill.testing.case import Case

_TIERS: Final = ("eager", "deterministic")


class PluginTests:
    r"""Hold the kernels of a plugin to one meaning, interpreted and compiled.

        class TestMine(PluginTests):
            ops = ("Relu6",)
            cases = '[[Mine>Scale]]\nin = ["float32[3]"]'

    Each case runs interpreted, compiled, and as generated code, in validation mode, so that kernels
    that write to their inputs, or do not raise the error of their `check=`, are found as well.

    Attributes:
        ops: ops of TensorFlow for which the plugin has kernels; their stored cases are asked.
        cases: cases of ops of its own, as in `graphmill.testing.cases`.
        exclude: reasons by op or case id, for what knowingly differs.
    """

    graphmill_suite: ClassVar[str] = "PluginTests"
    ops: ClassVar[tuple[str, ...]] = ()
    cases: ClassVar[str] = ""
    exclude: ClassVar[dict[str, str]] = {}

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Make one test of each case."""
        if "case" not in metafunc.fixturenames:
            return
        every = metafunc.config.getoption("--graphmill-every")
        stored = [case for case in load_cases() if case.op in self.ops][::every] if self.ops else []
        asked = [*stored, *parse_cases(self.cases, "own")]
        metafunc.parametrize("case", asked, ids=[case.id for case in asked])

    @pytest.fixture
    def host(self, graphmill_host: Host) -> Host:
        """Give the host whose kernels are tested; override it to bring plugins of your own."""
        return graphmill_host

    @rows("E6")
    @pytest.mark.parametrize("tier", _TIERS)
    def test_a_case_has_one_answer_in_every_tier(
        self, case: Case, tier: str, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Values, types, shapes and errors of a compiled node are those of the interpreted one."""
        reason = self.exclude.get(case.id) or self.exclude.get(case.op)
        if reason:
            pytest.skip(reason)
        monkeypatch.setenv(VALIDATE_VARIABLE, "1")
        wanted = SessionRunner(host, config=jit_config("off")).run(case)
        got = SessionRunner(host, config=jit_config(tier)).run(case)
        for answer in (wanted, got):
            if isinstance(answer, NotApplicableError):
                pytest.skip(str(answer))
        assert wanted.error != "Internal", f"{case.op}: {wanted.message}"
        found = difference(case, wanted, got, "session")
        assert not found, f"op {case.op}{_supplied(host, case.op)}, jit {tier!r}: {found}"

    @rows("E6")
    def test_kernels_and_lowerings_are_for_ops_that_are_defined(self, host: Host) -> None:
        """What a plugin brings for an op that nobody defines is never used: a misspelt name."""
        named = dict.fromkeys((*self.ops, *(case.op for case in parse_cases(self.cases, "own"))))
        entries = [entry for op in named for entry in host.kernels.registrations(host.ops.get(op))]
        owners = {entry.owner for entry in entries}
        for record in host.plugins:
            for kind in ("kernels", "lowerings") if record.owner in owners else ():
                undefined = record.undefined_ops(kind, host.ops)
                assert not undefined, (
                    f"{record.owner} has {kind} for ops that are not defined: "
                    f"{', '.join(undefined)}. Correct the names, or bring the plugin that defines "
                    "them into the host that is tested"
                )


def _supplied(host: Host, op: str) -> str:
    """Return which kernels an op has, and of whom, for messages."""
    entries = host.kernels.registrations(host.ops.get(op))
    named = sorted({f"{entry.definition.source} of {entry.owner}" for entry in entries})
    return f" (kernels: {', '.join(named)})" if named else ""
