"""The nightly run counts inputs, and reports findings, crashes and hangs."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


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


def test_output_may_have_bytes_of_an_input(
    fuzz_nightly: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fuzz_nightly, "_FOLDER", tmp_path)
    (tmp_path / "fuzz_image.py").write_text(
        "import sys\n"
        "sys.stdout.buffer.write(b'image: TypeError at a.py:1: \\xd3\\n')\n"
        "sys.stdout.buffer.write(b'image: 50 inputs, 1 findings\\n')\n"
    )
    report = fuzz_nightly.Report("image")
    fuzz_nightly.add_batch(report, *fuzz_nightly.run_batch("image", 1, 60.0), 1)
    assert (report.inputs, report.findings) == (50, ["seed 1: image: TypeError at a.py:1: \ufffd"])


@pytest.fixture
def batches(fuzz_nightly: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Replace the batches by ones of 50 inputs and a finding; the seeds of those that were run."""
    seeds: list[int] = []

    def run_batch(name: str, seed: int, seconds: float) -> tuple[int, str]:
        seeds.append(seed)
        return 1, f"{name}: KeyError at a.py:1: x\n{name}: 50 inputs, 1 findings\n"

    monkeypatch.setattr(fuzz_nightly, "run_batch", run_batch)
    return seeds


def test_target_is_run_until_it_had_enough_inputs(
    fuzz_nightly: Any, batches: list[int], tmp_path: Path
) -> None:
    counts = fuzz_nightly.Counts(tmp_path / "build" / "counts.json")
    report = fuzz_nightly.run_target("image", 1e6, 7, counts, 120)
    assert (report.inputs, len(report.findings)) == (150, 3)
    assert batches == [7, 8, 9]
    assert fuzz_nightly.run_target("image", 1e6, 7, counts, 120).inputs == 0


def test_counts_are_kept_for_the_next_run(
    fuzz_nightly: Any, batches: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "counts.json"
    fuzz_nightly.run_target("image", 1e6, 7, fuzz_nightly.Counts(path), 60)
    counts = fuzz_nightly.Counts(path)
    assert counts.of("image") == {"inputs": 100, "findings": 2, "batches": 2}
    assert counts.of("pbtxt") == {"inputs": 0, "findings": 0, "batches": 0}
    assert fuzz_nightly.run_target("image", 1e6, 7, counts, 160).inputs == 100
    assert batches == [7, 8, 9, 10]


def test_target_that_does_not_start_is_given_up(
    fuzz_nightly: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fuzz_nightly, "run_batch", lambda *_: (1, "ImportError"))
    counts = fuzz_nightly.Counts(tmp_path / "counts.json")
    report = fuzz_nightly.run_target("image", float("inf"), 7, counts, 1_000)
    assert report.inputs == 0
    assert counts.of("image")["findings"] == len(report.findings) == 20


def test_counts_of_all_runs_are_reported(
    fuzz_nightly: Any,
    batches: list[int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    tmp_path: Path,
) -> None:
    path = tmp_path / "counts.json"
    options = ["--only", "image", "--counts", str(path), "--seed", "1", "--jobs", "1"]
    for inputs in ("50", "100"):
        monkeypatch.setattr("sys.argv", ["fuzz_nightly.py", *options, "--inputs", inputs])
        assert fuzz_nightly.main() == 1
    assert batches == [1, 2]
    lines = capsys.readouterr().out.splitlines()
    assert lines[3:5] == [
        "image: 50 inputs, 1 findings",
        "    in all runs 100 inputs, 2 findings",
    ]


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
