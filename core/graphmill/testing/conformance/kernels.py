"""`KernelTests`: the op cases, run in sessions on one device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from graphmill import proto
from graphmill.graph.device_name import parse_device_name
from graphmill.testing.case import Case, load_cases
from graphmill.testing.compare import verdict
from graphmill.testing.conformance.clauses import clauses
from graphmill.testing.runners.device_runner import DeviceRunner
from graphmill.testing.runners.kernel_runner import NotApplicableError
from graphmill.testing.runners.session_runner import SessionRunner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.plugin.host import Host
    from graphmill.testing.golden import CaseResult
    from graphmill.testing.runners.backends import Runner


_RETURN_THEIR_DEVICE = frozenset({"DeviceIndex"})
"""Ops whose result is the type of their device; TensorFlow's stored results are from a CPU."""


class KernelTests:
    """Compare the kernels of a device with TensorFlow's results.

    Each case that the device has a kernel for runs as a graph in a session of its own. An error
    must have TensorFlow's class and name the node.

    Attributes:
        device: where the op is placed, such as "/device:NPU:0"; "" leaves it to placement.
        families: the op families to test; None for all.
        exclude: reasons, by op or case id, for known differences of the device.
        settings: `ConfigProto` fields that its sessions need, besides `device_count`.
        elsewhere: whether to skip a case that the device has no kernel for; otherwise it fails.
        backend: "jax" if XLA computes on the device: the tolerances are twice as large, and errors
            that depend on values are not expected, as XLA cannot raise; otherwise "session".

    A session has one device of the tested type. `--graphmill-device` names it if the class does
    not; `--graphmill-every N` runs only every Nth case.
    """

    graphmill_suite: ClassVar[str] = "KernelTests"
    device: ClassVar[str] = ""
    families: ClassVar[tuple[str, ...] | None] = None
    exclude: ClassVar[Mapping[str, str]] = {}
    settings: ClassVar[dict[str, Any]] = {}
    elsewhere: ClassVar[bool] = True
    backend: ClassVar[str] = "session"

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Create one test for each case."""
        if "case" in metafunc.fixturenames:
            every = metafunc.config.getoption("--graphmill-every")
            cases = load_cases(families=self.families)[::every]
            metafunc.parametrize("case", cases, ids=[case.id for case in cases])

    @pytest.fixture
    def host(self, graphmill_host: Host) -> Host:
        """Return the host whose device is tested; override it to add plugins of your own."""
        return graphmill_host

    @pytest.fixture
    def runner(self, host: Host, graphmill_device: str) -> Runner:
        """Return the runner for cases on the device."""
        device = self.device or graphmill_device
        if not device:
            return SessionRunner(host)
        parsed = parse_device_name(device)
        count = {parsed.type or "CPU": (parsed.id or 0) + 1}
        config = proto.ConfigProto(device_count=count, **self.settings)
        return DeviceRunner(host, device, config, skips=self.elsewhere)

    @clauses("E6", "E11", "S12")
    def test_op_matches_tensorflow(self, case: Case, runner: Runner, graphmill_device: str) -> None:
        """Compare the result of a case with TensorFlow's."""
        reason = self.exclude.get(case.id) or self.exclude.get(case.op)
        if reason:
            pytest.skip(reason)
        if case.op in _RETURN_THEIR_DEVICE and "CPU" not in (
            self.device or graphmill_device or "CPU"
        ):
            pytest.skip("the result is the type of the device, which was a CPU in TensorFlow")
        try:
            message = verdict(case, lambda each: _result(runner, each), self.backend)
        except NotApplicableError as why:
            pytest.skip(str(why))
        assert not message, message


def _result(runner: Runner, case: Case) -> CaseResult | NotApplicableError:
    """Return the result of a case; it is not applicable if a library is missing."""
    result = runner.run(case)
    if not isinstance(result, NotApplicableError) and result.error == "Unimplemented":
        reason = result.message.partition("\n")[0]
        if "is not installed" in reason:
            return NotApplicableError(reason)
    return result
