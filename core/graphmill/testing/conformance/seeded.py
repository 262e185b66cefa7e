"""`SeededSuite`: base class of suites that test random graphs by seed."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from graphmill.testing.fakes.executor_probe import ProbeOps


class SeededSuite:
    """Makes one test of each seed, and hosts with ops that wait, fail and count.

    Attributes:
        seeds: how many random graphs, programs and schedules are tried.
        settings: `ConfigProto` fields that the sessions need.
    """

    seeds: ClassVar[int] = 12
    settings: ClassVar[dict[str, Any]] = {}

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Make one test of each seed."""
        if "seed" in metafunc.fixturenames:
            metafunc.parametrize("seed", range(self.seeds))

    @pytest.fixture
    def plugins(self) -> list[object]:
        """Return plugins that hosts of these tests have besides those installed."""
        return []

    @pytest.fixture
    def probe_ops(self) -> ProbeOps:
        """Return ops that wait, fail and count how often they run."""
        return ProbeOps()


def named(request: pytest.FixtureRequest, what: str, attribute: str, given: str | None) -> str:
    """Return the name of what is tested: that of the class, or the option's.

    Args:
        request: the fixture's.
        what: "executor" or "pass"; the option is `--graphmill-WHAT`.
        attribute: where a class names it, for the message.
        given: what the class says; None if it says nothing.
    """
    option = f"--graphmill-{what}"
    found = request.config.getoption(option) if given is None else given
    if found is None:
        pytest.skip(f"no {what} is named: set `{attribute}`, or give {option}")
    return str(found)
