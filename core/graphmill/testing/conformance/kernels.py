"""`KernelTests`: the op cases, run in sessions on one device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from graphmill import proto
from graphmill.graph.device_name import parse_device_name
from graphmill.testing.case import Case, load_cases
from graphmill.testing.compare import verdict
from graphmill.testing.conformance.rows import rows
from graphmill.testing.runners.device_runner import DeviceRunner
from graphmill.testing.runners.kernel_runner import NotApplicableError
from graphmill.testing.runners.session_runner import SessionRunner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.plugin.host import Host
    from graphmill.testing.golden import Answer
    from graphmill.testing.runners.backends import Runner


_TELL_THEIR_DEVICE = frozenset({"DeviceIndex"})
"""Ops that answer with the kind of device that they run on; TensorFlow's answers are of its CPU."""


class KernelTests:
    """Compare the kernels of a device with TensorFlow's results.

    Each case that the device has a kernel for is a graph of its own, run in a session. An error
    must be of TensorFlow's class and name the node.

    Attributes:
        device: where the op is placed, as "/device:NPU:0"; "" leaves it to placement.
        families: families of ops to ask; None for all.
        exclude: reasons by op or case id, for what the device knowingly does otherwise.
        settings: `ConfigProto` fields that its sessions need, besides `device_count`.
        elsewhere: whether a case that the device has no kernel for is skipped. If not, it fails.

    A session has one device of the type that is tested. `--graphmill-device` names it where the
    class does not; `--graphmill-every N` asks only every Nth case.
    """

    graphmill_suite: ClassVar[str] = "KernelTests"
    device: ClassVar[str] = ""
    families: ClassVar[tuple[str, ...] | None] = None
    exclude: ClassVar[Mapping[str, str]] = {}
    settings: ClassVar[dict[str, Any]] = {}
    elsewhere: ClassVar[bool] = True

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Make one test of each case."""
        if "case" in metafunc.fixturenames:
            every = metafunc.config.getoption("--graphmill-every")
            cases = load_cases(families=self.families)[::every]
            metafunc.parametrize("case", cases, ids=[case.id for case in cases])

    @pytest.fixture
    def host(self, graphmill_host: Host) -> Host:
        """Return the host whose device is tested; override it to bring plugins of your own."""
        return graphmill_host

    @pytest.fixture
    def runner(self, host: Host, graphmill_device: str) -> Runner:
        """Return what answers a case on the device."""
        device = self.device or graphmill_device
        if not device:
            return SessionRunner(host)
        parsed = parse_device_name(device)
        count = {parsed.type or "CPU": (parsed.id or 0) + 1}
        config = proto.ConfigProto(device_count=count, **self.settings)
        return DeviceRunner(host, device, config, skips=self.elsewhere)

    @rows("E6", "E11", "S12")
    def test_op(self, case: Case, runner: Runner, graphmill_device: str) -> None:
        """Return TensorFlow's answer to a case."""
        reason = self.exclude.get(case.id) or self.exclude.get(case.op)
        if reason:
            pytest.skip(reason)
        if case.op in _TELL_THEIR_DEVICE and "CPU" not in (
            self.device or graphmill_device or "CPU"
        ):
            pytest.skip("it answers with its device, and TensorFlow's was a CPU")
        try:
            message = verdict(case, lambda asked: _answer(runner, asked), "session")
        except NotApplicableError as why:
            pytest.skip(str(why))
        assert not message, message


def _answer(runner: Runner, case: Case) -> Answer | NotApplicableError:
    """Return the answer to a case; a library that is not installed is no fault of a device."""
    given = runner.run(case)
    if not isinstance(given, NotApplicableError) and given.error == "Unimplemented":
        reason = given.message.partition("\n")[0]
        if "is not installed" in reason:
            return NotApplicableError(reason)
    return given
