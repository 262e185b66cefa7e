"""The pytest plugin: invalid options, and waits for background compilations."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from graphmill.runtime.threads.background_jobs import BackgroundWork
from graphmill.testing import plugin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_test_path_is_not_taken_as_report_file(tmp_path: Path) -> None:
    test = tmp_path / "test_mine.py"
    test.write_text("def test_it(): pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--graphmill-coverage"]
    done = subprocess.run([*command, str(test)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 4
    assert "put the option after the paths" in done.stderr
    assert test.read_text() == "def test_it(): pass\n"


def test_old_option_of_the_coverage_report_works_and_warns(tmp_path: Path) -> None:
    test = tmp_path / "test_mine.py"
    test.write_text(
        "from graphmill.testing.conformance.clauses import clauses\n"
        "class TestMine:\n"
        "    graphmill_suite = 'Mine'\n"
        "    @clauses('E7')\n"
        "    def test_it(self): pass\n"
    )
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(test)]
    done = subprocess.run(
        [*command, "--graphmill-levels", str(report)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout
    assert "is now '--graphmill-coverage'" in done.stdout
    data = json.loads(report.read_text())
    assert data["clauses"] == data["rows"] == {"E7": "passed"}


def test_background_thread_that_does_not_end_fails_one_test(tmp_path: Path) -> None:
    test = tmp_path / "test_mine.py"
    test.write_text(
        "import threading\n"
        "import graphmill.runtime.threads.background_jobs\n"
        "from graphmill.testing import plugin\n"
        "plugin._JOIN_TIMEOUT = 0.1\n"
        "def wait_in_vain(): threading.Event().wait()\n"
        "def test_it():\n"
        "    name = 'graphmill-background'\n"
        "    threading.Thread(target=wait_in_vain, name=name, daemon=True).start()\n"
        "def test_next(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(test)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "graphmill-background did not end in 0.1 s" in done.stdout
    assert "in wait_in_vain" in done.stdout
    assert "2 passed, 1 error" in done.stdout


@pytest.fixture
def work() -> Iterator[BackgroundWork]:
    made = BackgroundWork()
    yield made
    assert made.is_idle
    assert made.num_done == 1


def test_teardown_waits_for_background_work(work: BackgroundWork) -> None:
    work.submit(None, lambda: sum(range(3_000_000)))


def test_a_thread_that_is_being_started_is_waited_for(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread is listed before it has started, and cannot be joined until then."""
    thread = threading.Thread(target=sum, args=(range(1000),), name="graphmill-background")
    started = thread._started  # type: ignore[attr-defined]

    class StartsWhenAwaited:
        def wait(self, timeout: float) -> bool:
            monkeypatch.setattr(thread, "_started", started)
            thread.start()
            return bool(started.wait(timeout))

    monkeypatch.setattr(thread, "_started", StartsWhenAwaited())
    with monkeypatch.context() as patch:
        patch.setattr(threading, "enumerate", lambda: [thread])
        plugin._let_background_end(request.node)
    assert thread.ident is not None
    assert not thread.is_alive()
