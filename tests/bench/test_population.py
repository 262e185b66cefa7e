"""A small part of the population gives TensorFlow's results, interpreted and compiled."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmark.case_folder import CaseFolder, case_folders
from benchmark.graphmill_system import Runner

SMOKE = case_folders([Path(__file__).with_name("population") / "smoke"])


@pytest.mark.parametrize("mode", ["off", "tiered", "eager"])
@pytest.mark.parametrize("folder", SMOKE, ids=[folder.name for folder in SMOKE])
def test_results_are_those_of_tensorflow(folder: Path, mode: str, tmp_path: Path) -> None:
    case = CaseFolder(folder, tmp_path)
    runner = Runner(case, {"graphmill": {"jit": mode}})
    try:
        for step in range(case.steps):
            _, problem = case.check(runner.step(*case.feeds(step)), step)
            assert not problem, f"step {step}"
    finally:
        runner.close()


def test_the_sample_has_cases_of_each_kind() -> None:
    assert len(SMOKE) >= 20


@pytest.mark.parametrize(("mode", "tier"), [("off", "interpreted"), ("eager", "compiled")])
def test_the_tier_of_the_steps_is_reported(mode: str, tier: str, tmp_path: Path) -> None:
    (folder,) = (folder for folder in SMOKE if folder.name == "elementwise_16")
    case = CaseFolder(folder, tmp_path)
    runner = Runner(case, {"graphmill": {"jit": mode}})
    try:
        runner.step(*case.feeds(0))
        assert runner.tier() == tier
    finally:
        runner.close()
