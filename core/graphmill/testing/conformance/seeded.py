"""`SeededSuite`: base class of suites that test random graphs by seed."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from graphmill.testing.fakes.executor_probe import ProbeOps


class SeededSuite:
    """Creates one test for each seed, and has ops that wait, fail and count.

    Attributes:
        seeds: the number of random graphs, programs and schedules.
        settings: `ConfigProto` fields that the sessions need.
    """

    seeds: ClassVar[int] = 12
    settings: ClassVar[dict[str, Any]] = {}

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Create one test for each seed."""
        if "seed" in metafunc.fixturenames:
            metafunc.parametrize("seed", range(self.seeds))

    @pytest.fixture
    def plugins(self) -> list[object]:
        """Return plugins that the hosts of these tests have in addition to the installed ones."""
        return []

    @pytest.fixture
    def probe_ops(self) -> ProbeOps:
        """Return ops that wait, fail or count their calls."""
        return ProbeOps()


def named(request: pytest.FixtureRequest, what: str, attribute: str, declared: str | None) -> str:
    """Return the name of the tested object: that of the class, else that of the option.

    Args:
        request: the request of the fixture.
        what: "executor" or "pass"; the option is `--graphmill-WHAT`.
        attribute: the class attribute for the name, for the message.
        declared: the value of that attribute; None if it is not set.
    """
    option = f"--graphmill-{what}"
    value = request.config.getoption(option) if declared is None else declared
    if value is None:
        pytest.skip(f"no {what} is named: set `{attribute}`, or pass {option}")
    return str(value)
