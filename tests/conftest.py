"""Fixtures for all tests."""

from __future__ import annotations

import faulthandler
import gc
import importlib
import importlib.util
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from tests import shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphmill.plugin.host import Host

FAKE_DISTS = Path(__file__).parent / "data" / "fake_dists"

# A run says the same of the same code, whatever else the machine does; to look for more:
# pytest --hypothesis-profile explore
hypothesis.settings.register_profile(
    "graphmill",
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("explore", deadline=None, print_blob=True)
hypothesis.settings.load_profile("graphmill")


HANG_SECONDS = 300
"""After this time without the start of a test, the run ends with the stacks of its threads."""


class HangReport:
    """Prints the stacks of all threads, and ends the run, if no test starts for a long time.

    pytest's own `faulthandler_timeout` starts a thread for each test, which takes longer than most
    tests do; this one starts a thread every half minute.
    """

    def __init__(self) -> None:
        self._file = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)
        self._begun = float("-inf")

    def pytest_runtest_logstart(self) -> None:
        """Restart the timer, at most every few seconds."""
        now = time.monotonic()
        if now - self._begun > HANG_SECONDS / 10:
            self._begun = now
            faulthandler.dump_traceback_later(HANG_SECONDS, file=self._file, exit=True)

    def pytest_unconfigure(self) -> None:
        """Stop watching for hangs."""
        faulthandler.cancel_dump_traceback_later()
        os.close(self._file)


def pytest_configure(config: pytest.Config) -> None:
    """Start watching for hangs, before output is captured."""
    config.pluginmanager.register(HangReport())


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for a share of the tests."""
    shares.add_option(parser)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of other shares."""
    shares.deselect_other_shares(config, items)


def pytest_collection_finish() -> None:
    """Exclude the collected objects, about a million, from garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT raise `KeyboardInterrupt`, even if Python was started with SIGINT ignored.

    A shell starts what it puts into the background so, and programs inherit it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def no_cache_of_jax(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Disable JAX's persistent cache, even if the environment names a folder for it.

    What JAX takes from its folder is not written to graphmill's, so tests of that one need this.
    """
    if importlib.util.find_spec("jax") is None:
        yield
        return
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", "false")  # for the processes of tests
    before = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    yield
    jax.config.update("jax_enable_compilation_cache", before)
    compilation_cache.reset_cache()


@pytest.fixture
def use_dists(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that makes folders with `.dist-info` trees look installed.

    It takes names of trees in tests/data/fake_dists, or paths. Nothing is installed: the folders
    are put on `sys.path`, and modules imported from them are forgotten after the test. What the
    environment says of plugins does not count in these tests.
    """
    monkeypatch.delenv("GRAPHMILL_DISABLE_PLUGINS", raising=False)
    monkeypatch.delenv("GRAPHMILL_LOAD_PLUGINS", raising=False)
    used: list[Path] = []

    def use(*trees: str | Path) -> None:
        for tree in trees:
            folder = FAKE_DISTS / tree
            assert folder.is_dir(), f"there is no {folder}"
            used.append(folder)
            monkeypatch.syspath_prepend(str(folder))

    yield use
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and any(Path(file).is_relative_to(folder) for folder in used):
            del sys.modules[name]
    importlib.invalidate_caches()


@dataclass(frozen=True)
class Outcome:
    """The result of a command line call: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


@pytest.fixture
def graphmill_cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Return a function that runs the command line on arguments, within the test's process."""
    from graphmill.cli.main import run_command_line
    from graphmill.cli.options import Settings

    def call(*arguments: str, host: Host | None = None) -> Outcome:
        code = run_command_line(arguments, Settings(host=host))
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def digits() -> Path:
    """The folder of the example model."""
    return Path(__file__).parents[1] / "examples" / "digits"
