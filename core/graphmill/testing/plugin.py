"""pytest fixtures and options, which pytest loads through an entry point of graphmill.

Every pytest run in an environment with graphmill imports this module, so it imports the rest of
graphmill only on use.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from graphmill.plugin.host import Host
    from graphmill.testing.case import Case
    from graphmill.testing.runners.backends import Runner

_COVERAGE: Any = pytest.StashKey[Any]()
_BACKGROUND = "graphmill-background"
_JOIN_TIMEOUT = 60.0  # seconds; compilations are much shorter
_STUCK: Any = pytest.StashKey[set[threading.Thread]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the conformance suites."""
    group = parser.getgroup("graphmill", "conformance of graphmill plugins")
    group.addoption(
        "--graphmill-device",
        metavar="DEVICE",
        default="",
        help="the device that the suites test: a type (NPU) or a name (/device:NPU:0)",
    )
    group.addoption(
        "--graphmill-executor",
        metavar="TYPE",
        default=None,
        help="the executor_type that the suites test",
    )
    group.addoption(
        "--graphmill-pass", metavar="NAME", default=None, help="the graph pass that the suites test"
    )
    group.addoption(
        "--graphmill-plugin",
        metavar="NAME",
        default="",
        help="the plugin, or the distribution, whose kernels the suites test",
    )
    group.addoption(
        "--graphmill-cases",
        metavar="FILE",
        default="",
        help="a TOML file with cases for ops of that plugin that graphmill has no cases for",
    )
    group.addoption(
        "--graphmill-transport",
        metavar="NAME",
        default="",
        help="the transport that the suites test",
    )
    group.addoption(
        "--graphmill-every",
        metavar="N",
        type=int,
        default=1,
        help="run only every Nth op case, for a quick check",
    )
    group.addoption(
        "--graphmill-coverage",
        metavar="FILE",
        nargs="?",
        const="-",
        default=None,
        help="report which ops and clauses were covered, at the end or in FILE (.json)",
    )
    group.addoption(
        "--graphmill-levels",
        metavar="FILE",
        nargs="?",
        const="-",
        default=None,
        help="the old name of --graphmill-coverage",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect results for the report, if it is requested.

    Raises:
        UsageError: the value of --graphmill-coverage is not a .json file, but a path of tests.
    """
    target = _coverage_target(config)
    if target is not None:
        if target != "-" and not target.endswith(".json"):
            raise pytest.UsageError(
                f"--graphmill-coverage writes to a .json file, not to {target!r}; to print the "
                "report, put the option after the paths"
            )
        from graphmill.testing.coverage_report import CoverageReport

        if config.getoption("--graphmill-levels") is not None:
            # Not by the `warnings` module, whose default filters hide it.
            text = "the option '--graphmill-levels' is now '--graphmill-coverage'"
            config.issue_config_time_warning(pytest.PytestDeprecationWarning(text), stacklevel=2)
        report = config.stash[_COVERAGE] = CoverageReport()
        config.pluginmanager.register(report, "graphmill_coverage")


def _coverage_target(config: pytest.Config) -> str | None:
    """Return the file of the coverage report, "-" for the terminal, or None for no report."""
    targets = (config.getoption("--graphmill-coverage"), config.getoption("--graphmill-levels"))
    return next((target for target in targets if target is not None), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Record suite, clauses and op of each test of a suite, for the report."""
    for item in items:
        suite = getattr(getattr(item, "cls", None), "graphmill_suite", "")
        if suite:
            function = getattr(item, "function", None)
            case = getattr(item, "callspec", None) and item.callspec.params.get("case")  # type: ignore[attr-defined]
            item.user_properties.append(
                (
                    "graphmill",
                    {
                        "suite": suite,
                        "clauses": list(getattr(function, "__graphmill_clauses__", ())),
                        "op": getattr(case, "op", ""),
                    },
                )
            )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Wait until the background compilations of an earlier test have ended."""
    _let_background_end(item)
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Wait until the background compilations of fixtures have ended."""
    _let_background_end(item)
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Wait until the background compilations of the test have ended."""
    try:
        _let_background_end(item)
    finally:
        result = yield
    return result


def _let_background_end(item: pytest.Item) -> None:
    """Wait for background compilations in flight.

    Otherwise a test would see threads that are not its own. They also break pytest's log capture,
    which iterates over the loggers while the import of JAX adds some ("dictionary changed size
    during iteration").

    Raises:
        pytest.fail.Exception: a thread does not end; the message has the stacks of all threads.
            Later tests do not wait for it.
    """
    if "graphmill.runtime.threads.background_jobs" not in sys.modules:
        return
    stuck = item.config.stash.setdefault(_STUCK, set())
    for thread in threading.enumerate():
        if thread.name == _BACKGROUND and thread not in stuck:
            # Another thread may be within its `start`; a thread that has not started has no `join`.
            if thread._started.wait(_JOIN_TIMEOUT):  # type: ignore[attr-defined]  # noqa: SLF001
                thread.join(_JOIN_TIMEOUT)
            if thread.is_alive():
                stuck.add(thread)
                problem = f"{thread.name} did not end in {_JOIN_TIMEOUT:g} s"
                pytest.fail(_stacks(problem), pytrace=False)


def _stacks(problem: str) -> str:
    """Return a problem and the stacks of all threads."""
    import traceback

    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [f"{problem}; the threads are at"]
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 - as in faulthandler
        parts.append(f"{names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}")
    return "\n".join(parts)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print or write the report."""
    report = config.stash.get(_COVERAGE, None)
    if report is None:
        return
    target = _coverage_target(config)
    if target == "-":
        terminalreporter.section("graphmill conformance")
        for line in report.lines():
            terminalreporter.write_line(line)
    else:
        report.write(target)


@pytest.fixture(scope="session")
def graphmill_host() -> Host:
    """Return the default host, which has all installed plugins."""
    from graphmill.plugin.host import default_host

    return default_host()


@pytest.fixture(scope="session")
def graphmill_device(request: pytest.FixtureRequest) -> str:
    """Return the device name of `--graphmill-device`; "" if the option is not given."""
    value = str(request.config.getoption("--graphmill-device"))
    return value if not value or "/" in value or ":" in value else f"/device:{value}:0"


@pytest.fixture
def make_host() -> Callable[..., Host]:
    """Return a function that creates a host with the installed plugins and those passed to it."""

    def make(*plugins: object) -> Host:
        from graphmill.plugin.host import Host

        return Host(plugins=plugins)

    return make


@pytest.fixture(scope="session")
def make_runner(graphmill_host: Host) -> Callable[[str], Runner]:
    """Return a function that creates the case runner of a backend on the default host."""

    def make(backend: str) -> Runner:
        from graphmill.testing.runners.backends import runner

        return runner(backend, graphmill_host)

    return make


@pytest.fixture
def make_cases() -> Callable[[str], Iterable[Case]]:
    """Return a function that parses cases in the format of `graphmill.testing.cases`."""

    def make(text: str) -> list[Any]:
        from graphmill.testing.case import parse_cases

        return list(parse_cases(text, "made"))

    return make
