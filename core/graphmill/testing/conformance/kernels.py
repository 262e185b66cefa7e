"""`KernelTests`: the op cases, run in sessions on one device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from graphmill.testing.case import Case, load_cases
from graphmill.testing.judge import verdict
from graphmill.testing.runner import NotApplicableError
from graphmill.testing.session_runner import SessionRunner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.plugin.host import Host


class KernelTests:
    """Hold the kernels of a device to TensorFlow's answers.

    Each case that the device has a kernel for is a graph of its own, run in a session. An error
    must be of TensorFlow's class and name the node.

    Attributes:
        device: where the op is placed, as "/device:NPU:0"; "" leaves it to placement.
        families: families of ops to ask; None for all.
        exclude: reasons by op or case id, for what the device knowingly does otherwise.
    """

    device: ClassVar[str] = ""
    families: ClassVar[tuple[str, ...] | None] = None
    exclude: ClassVar[Mapping[str, str]] = {}

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Make one test of each case."""
        if "case" in metafunc.fixturenames:
            cases = load_cases(families=self.families)
            metafunc.parametrize("case", cases, ids=[case.id for case in cases])

    @pytest.fixture
    def host(self, graphmill_host: Host) -> Host:
        """Give the host whose device is tested; override it to bring plugins of your own."""
        return graphmill_host

    def test_op(self, case: Case, host: Host) -> None:
        """Give TensorFlow's answer to a case."""
        reason = self.exclude.get(case.id) or self.exclude.get(case.op)
        if reason:
            pytest.skip(reason)
        try:
            message = verdict(case, SessionRunner(host, self.device).run, "session")
        except NotApplicableError as why:
            pytest.skip(str(why))
        assert not message, message
