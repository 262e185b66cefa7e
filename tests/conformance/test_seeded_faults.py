"""The suites catch each of ten faults in broken copies of a device and of the DEFAULT executor.

The copies are in `broken_device.py` and `broken_executor.py`; a sound one of each passes. What must
catch a fault is named, so that a suite that fails for another reason does not count.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

DEVICE_FAULTS = {
    "SharesMemory": "test_its_memory_is_its_own",
    "LosesPrecision": "test_values_survive_the_round_trip",
    "ForgetsLayout": "test_values_survive_the_round_trip",
    "GivesBackHandles": "test_values_survive_the_round_trip",
    "ReusesItsBuffer": "test_what_comes_back_stays",
    "HasNoNamespace": "test_each_backend_has_a_namespace",
    "NeverSyncs": "test_sync_ends",
    "ClosesOnce": "test_close_may_be_called_twice",
    "SoundAgain": "test_each_start_is_another_incarnation",
    "WritesInputs": "test_op[Neg",
    "LeakyAllocator": "test_the_books_are_kept",
}
EXECUTOR_FAULTS = {
    "NeverDone": "test_control_edges_order_effects",
    "DoneTwice": "test_control_edges_order_effects",
    "SwallowsErrors": "test_the_first_error_is_told",
    "RaisesWhatItGot": "test_the_first_error_is_told",
    "InAnotherThread": "test_control_edges_order_effects",
    "RunsTwice": "test_every_node_runs_once",
    "MixesInputs": "test_iterations_may_overlap",
    "ForgetsIterations": "test_iterations_may_overlap",
    "FailsAtTimes": "test_iterations_may_overlap",
    "IgnoresCancellation": "test_a_deadline_ends_a_step",
}


def failures(file: str, *selection: str) -> str:
    """Run a file of suites; return what pytest says of each test."""
    options = ["-q", "-p", "no:cacheprovider", "-rA", "--tb=no", "-W", "ignore"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--import-mode=importlib", str(HERE / file),
         "-k", " or ".join(selection), "--rootdir", str(HERE), "-c", "/dev/null"],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    return done.stdout


@pytest.fixture(scope="module")
def devices() -> str:
    tests = {name: test.removeprefix("test_op[") for name, test in DEVICE_FAULTS.items()}
    selection = [f"(Test{name} and {test})" for name, test in tests.items()]
    return failures("broken_device.py", *selection, "TestSound and not Again")


@pytest.fixture(scope="module")
def executors() -> str:
    selection = [f"(Test{name} and {test})" for name, test in EXECUTOR_FAULTS.items()]
    sound = [f"(TestSound and {test})" for test in set(EXECUTOR_FAULTS.values())]
    return failures("broken_executor.py", *selection, *sound)


def is_caught(wanted: str, report: str) -> bool:
    lines = [line for line in report.splitlines() if wanted in line]
    return any(line.startswith(("FAILED ", "ERROR ")) for line in lines)


@pytest.mark.parametrize("fault", DEVICE_FAULTS)
def test_a_fault_of_a_device_is_caught(fault: str, devices: str) -> None:
    assert is_caught(f"::Test{fault}::{DEVICE_FAULTS[fault]}", devices), devices[-3000:]


@pytest.mark.parametrize("fault", EXECUTOR_FAULTS)
def test_a_fault_of_an_executor_is_caught(fault: str, executors: str) -> None:
    assert is_caught(f"::Test{fault}::{EXECUTOR_FAULTS[fault]}", executors), executors[-3000:]


def test_sound_copies_pass(devices: str, executors: str) -> None:
    for report in (devices, executors):
        assert "PASSED" in report
        assert not is_caught("::TestSound::", report)
