"""Seeded inputs of each fuzz target, and all stored failures, raise no untyped error."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sys
import threading
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.message import DecodeError

if TYPE_CHECKING:
    from types import ModuleType

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # where the modules of targets are found that started as scripts
TARGETS = sorted(path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.py"))
FINDS = sorted(path for path in (HERE / "corpus").rglob("*") if path.is_file())
LIBRARIES = {"image": "PIL", "grpc_message": "grpc"}
RUNS = {"saved_model": 60, "graph_def": 150}
DEFAULT_RUNS = 300


def skip_without_library(target: str) -> None:
    if target in LIBRARIES:
        pytest.importorskip(LIBRARIES[target])
    if target == "isolated_reply" and not hasattr(os, "memfd_create"):
        pytest.skip("models are isolated on Linux only")


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
    inputs = harness.inputs_of(target, name, RUNS.get(name, DEFAULT_RUNS), seed=1)
    faults = {harness.fault_of(target.fuzz, data) for data in inputs}
    assert faults - {""} == set()


@pytest.mark.parametrize("find", FINDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_past_finding_is_still_fixed(find: Path) -> None:
    skip_without_library(find.parent.name)
    target = module(f"fuzz_{find.parent.name}")
    assert module("harness").fault_of(target.fuzz, find.read_bytes()) == ""


def test_harness_reports_untyped_errors() -> None:
    def faulty(data: bytes) -> None:
        raise KeyError(data)

    assert "KeyError at" in module("harness").fault_of(faulty, b"x")
    assert module("harness").fault_of(lambda _: None, b"x") == ""


def test_harness_reports_errors_that_end_other_threads() -> None:
    def faulty(data: bytes) -> None:
        thread = threading.Thread(target={}.__getitem__, args=(data,))
        thread.start()
        thread.join()

    assert "KeyError at" in module("harness").fault_of(faulty, b"x")


@pytest.mark.parametrize("path", sorted(HERE.glob("*.dict")), ids=lambda path: path.stem)
def test_dictionary_has_the_syntax_of_libfuzzer(path: Path) -> None:
    """LibFuzzer refuses a whole dictionary for one escape that it does not know, such as `\\n`."""
    assert path.stem in TARGETS
    line = re.compile(r'\w+="(?:[^"\\]|\\["\\]|\\x[0-9a-f]{2})+"')
    lines = path.read_text(encoding="ascii").splitlines()
    assert [text for text in lines if not line.fullmatch(text)] == []
    assert len(module("harness").words_of(path.stem)) == len(lines)


def test_failure_is_stored_once_for_each_cause(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    harness = module("harness")
    monkeypatch.setattr(harness, "CORPUS", tmp_path)

    def faulty(data: bytes) -> None:
        if data != b"fine":
            raise KeyError("x")

    findings = harness.Findings(faulty, "target", "7")
    for data in (b"fine", b"one", b"two"):
        findings.try_input(data)
    findings.report()
    assert [path.read_bytes() for path in (tmp_path / "target").iterdir()] == [b"one"]
    assert capsys.readouterr().out.endswith("target: 3 inputs, 1 findings\n")


def test_time_of_a_run_with_atheris_is_limited(monkeypatch: Any, capsys: Any) -> None:
    harness = module("harness")
    statuses: list[int] = []
    monkeypatch.setattr(harness.os, "_exit", statuses.append)
    findings = harness.Findings(lambda _: None, "target", "7")
    harness.limited(findings, 1000.0)(b"one")
    assert statuses == []
    harness.limited(findings, -1.0)(b"two")
    assert statuses == [0]
    assert capsys.readouterr().out == "target: 2 inputs, 0 findings\n"


def test_mutator_is_repeatable() -> None:
    mutated = module("harness").mutated
    seeds, words = [b"first seed", b"second"], [b"word"]
    assert list(mutated(seeds, words, 50, 7)) == list(mutated(seeds, words, 50, 7))
    assert list(mutated(seeds, words, 50, 7)) != list(mutated(seeds, words, 50, 8))


def test_inputs_with_changed_fields_can_be_parsed_and_are_repeatable() -> None:
    harness, target = module("harness"), module("fuzz_tensor_message")
    changed = [
        list(islice(harness.changed_messages(target, target.seeds(), [b"word"], 3), 200))
        for _ in range(2)
    ]
    assert changed[0] == changed[1]
    assert len(set(changed[0])) > 100
    for data in changed[0]:
        target.read_message(data)


def test_half_of_the_inputs_of_messages_have_changed_fields() -> None:
    harness, target = module("harness"), module("fuzz_graph_def")
    inputs = list(harness.inputs_of(target, "graph_def", 400, seed=1))
    parsed = 0
    for data in inputs[200:]:
        with contextlib.suppress(DecodeError):
            target.read_message(data)
            parsed += 1
    assert len(inputs) == 400
    assert parsed >= 100


def test_growth_of_the_process_is_a_finding(monkeypatch: Any) -> None:
    harness = module("harness")
    sizes = iter((100, 100 + harness.LARGE_MB + 1))
    monkeypatch.setattr(harness, "peak_mb", lambda: next(sizes))
    assert harness.fault_of(lambda _: None, b"") == f"took {harness.LARGE_MB + 1} MB"
