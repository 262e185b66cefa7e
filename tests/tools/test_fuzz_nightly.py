"""The nightly run counts inputs, and reports findings, crashes and hangs."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest


@pytest.fixture
def fuzz_nightly(tool: Any) -> Any:
    return tool("fuzz_nightly")


def test_inputs_and_finds_of_a_batch_are_added(fuzz_nightly: Any) -> None:
    report = fuzz_nightly.Report("image")
    fuzz_nightly.add_batch(report, 0, "image: 50 inputs, 0 findings\n", 1)
    output = "some warning\nimage: KeyError at codec.py:1: x\nimage: 50 inputs, 1 findings\n"
    fuzz_nightly.add_batch(report, 1, output, 2)
    assert report.inputs == 100
    assert report.findings == ["seed 2: image: KeyError at codec.py:1: x"]


def test_crash_is_reported_as_a_failure(fuzz_nightly: Any) -> None:
    report = fuzz_nightly.Report("image")
    fuzz_nightly.add_batch(report, -11, "Segmentation fault", 3)
    assert report.findings == ["seed 3: exit status -11: Segmentation fault"]


def test_hang_is_reported_as_a_failure(fuzz_nightly: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **options: Any) -> Any:
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(fuzz_nightly.subprocess, "run", run)
    report = fuzz_nightly.Report("image")
    fuzz_nightly.add_batch(report, *fuzz_nightly.run_batch("image", 1, 60.0), 1)
    assert len(report.findings) == 1
    assert "hangs" in report.findings[0]


def test_all_targets_are_run(fuzz_nightly: Any) -> None:
    assert {"graph_def", "grpc_message", "image"} <= set(fuzz_nightly.targets())


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, ["--runs", "20000", "--seed", "7"]),
        (object(), ["--seconds", "90", "-seed=7"]),
    ],
)
def test_atheris_is_used_where_it_is_installed(
    fuzz_nightly: Any, monkeypatch: pytest.MonkeyPatch, spec: Any, expected: list[str]
) -> None:
    monkeypatch.setattr(fuzz_nightly.importlib.util, "find_spec", lambda _: spec)
    assert fuzz_nightly.batch_options(7, 90.0) == expected
