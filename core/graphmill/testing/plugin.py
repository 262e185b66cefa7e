"""pytest fixtures; pytest finds this module through the entry point that graphmill installs.

It is imported in every pytest run of an environment that has graphmill, so it imports nothing of
graphmill's by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.plugin.host import Host
    from graphmill.testing.case import Case
    from graphmill.testing.hosts import Runner


@pytest.fixture(scope="session")
def graphmill_host() -> Host:
    """Give the default host: what is installed, assembled once."""
    from graphmill.plugin.host import default_host

    return default_host()


@pytest.fixture
def make_host() -> Callable[..., Host]:
    """Give a maker of hosts: what is installed, and the plugins that are passed."""

    def make(*plugins: object) -> Host:
        from graphmill.plugin.host import Host

        return Host(plugins=plugins)

    return make


@pytest.fixture(scope="session")
def make_runner(graphmill_host: Host) -> Callable[[str], Runner]:
    """Give a maker of case runners over the default host: "numpy", "jax" or "session"."""

    def make(backend: str) -> Runner:
        from graphmill.testing.hosts import runner

        return runner(backend, graphmill_host)

    return make


@pytest.fixture
def make_cases() -> Callable[[str], Iterable[Case]]:
    """Give a maker of cases from text in the format of `graphmill.testing.cases`."""

    def make(text: str) -> list[Any]:
        from graphmill.testing.case import parse_cases

        return list(parse_cases(text, "made"))

    return make
