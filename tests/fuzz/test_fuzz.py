"""Seeded inputs of each fuzz target, and all stored failures, raise no untyped error."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

HERE = Path(__file__).parent
TARGETS = sorted(path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.py"))
FINDS = sorted((HERE / "corpus").rglob("*.bin"))
LIBRARIES = {"image": "PIL", "grpc_message": "grpc"}
RUNS = {"saved_model": 60, "graph_def": 150}
DEFAULT_RUNS = 300


def skip_without_library(target: str) -> None:
    if target in LIBRARIES:
        pytest.importorskip(LIBRARIES[target])


@cache
def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"graphmill_fuzz_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_inputs_give_results_or_typed_errors(name: str) -> None:
    skip_without_library(name)
    target, harness = module(f"fuzz_{name}"), module("harness")
    inputs = harness.mutated(
        target.seeds(), harness.words_of(name), RUNS.get(name, DEFAULT_RUNS), seed=1
    )
    faults = {harness.fault_of(target.fuzz, data) for data in inputs}
    assert faults - {""} == set()


@pytest.mark.parametrize("find", FINDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_past_find_stays_mended(find: Path) -> None:
    skip_without_library(find.parent.name)
    target = module(f"fuzz_{find.parent.name}")
    assert module("harness").fault_of(target.fuzz, find.read_bytes()) == ""


def test_harness_reports_untyped_errors() -> None:
    def faulty(data: bytes) -> None:
        raise KeyError(data)

    assert "KeyError at" in module("harness").fault_of(faulty, b"x")
    assert module("harness").fault_of(lambda _: None, b"x") == ""


def test_mutator_is_repeatable() -> None:
    mutated = module("harness").mutated
    seeds, words = [b"first seed", b"second"], [b"word"]
    assert list(mutated(seeds, words, 50, 7)) == list(mutated(seeds, words, 50, 7))
    assert list(mutated(seeds, words, 50, 7)) != list(mutated(seeds, words, 50, 8))
