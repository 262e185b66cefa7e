"""Case folders are read, and results compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from benchmark.case_folder import CaseFolder, case_folders, write_case
from benchmark.compare import compare
from benchmark.own_cases import OWN_CASES, write_own_cases

if TYPE_CHECKING:
    from pathlib import Path


def spec(**more: Any) -> dict[str, Any]:
    feed = {"name": "x:0", "dtype": "float32", "shape": [2]}
    return {"name": "c", "kind": "graph", "feeds": [feed], "fetches": ["y:0"], **more}


def written(folder: Path, values: list[Any], expected: list[Any], **more: Any) -> CaseFolder:
    folder.mkdir(exist_ok=True)
    write_case(folder, spec(**more), values, expected)
    return CaseFolder(folder, folder / "scratch")


def test_write_and_read_round_trip(tmp_path: Path) -> None:
    x = np.arange(2, dtype=np.float32)
    case = written(tmp_path / "c", [x], [x * 2], targets=["t"])
    assert np.array_equal(case.feeds(3)[0], x)
    assert np.array_equal(case.expected(0)[0], x * 2)
    assert (case.feed_names, case.fetches, case.targets) == (["x:0"], ["y:0"], ["t"])
    assert case.model == tmp_path / "c" / "graph.pb"


def test_batches_and_steps_are_leading_axes(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    case = written(tmp_path / "c", [x], [x[:, 0]], batches=3, steps=3)
    assert case.feeds(4)[0].tolist() == [2, 3]
    assert case.expected(2)[0] == 4


def test_strings_are_objects_of_bytes(tmp_path: Path) -> None:
    words = np.array([b"a", b"\xff"], object)
    feed = {"name": "x:0", "dtype": "string", "shape": [2]}
    case = written(tmp_path / "c", [words], [words], feeds=[feed])
    assert case.feeds(0)[0].tolist() == [b"a", b"\xff"]
    assert case.feeds(0)[0].dtype == object


def test_ragged_arrays_are_read_one_by_one(tmp_path: Path) -> None:
    case = written(tmp_path / "c", [np.zeros(1)], [np.zeros(1)], ragged=True, batches=2, steps=2)
    np.savez(tmp_path / "c" / "feeds.npz", f0_0=np.zeros(1), f0_1=np.zeros(3))
    np.savez(tmp_path / "c" / "expected.npz", e0_0=np.ones(1), e0_1=np.ones(3))
    assert [case.feeds(step)[0].size for step in range(3)] == [1, 3, 1]
    assert case.expected(1)[0].size == 3


def test_paths_name_the_case_and_the_scratch_folder(tmp_path: Path) -> None:
    feed = {"name": "p:0", "dtype": "string", "shape": [], "path": "{case}/a:{tmp}/b"}
    run = {"targets": ["init"], "feeds": [{"name": "n:0", "dtype": "int32", "value": 3}]}
    case = written(tmp_path / "c", [], [], feeds=[feed], init=[run])
    folder = tmp_path / "c"
    assert case.feeds(0)[0].item() == f"{folder}/a:{folder}/scratch/b".encode()
    assert case.init_runs == [(["init"], {"n:0": np.int32(3)})]


def test_wrong_results_are_reported_by_name(tmp_path: Path) -> None:
    x = np.ones(2, np.float32)
    case = written(tmp_path / "c", [x], [x], rtol=0.1, atol=0.0)
    assert case.check([x * np.float32(1.05)], 0) == (pytest.approx(0.5, rel=1e-3), "")
    assert "y:0: largest error" in case.check([x * 2], 0)[1]
    assert "0 results, expected 1" in case.check([], 0)[1]


@pytest.mark.parametrize(
    ("actual", "expected", "mode", "problem"),
    [
        (np.ones(2), np.ones(3), "allclose", "shape"),
        (np.ones(2), np.zeros(2), "shape", ""),
        (np.ones(2, np.float32), np.ones(2), "allclose", "dtype"),
        (np.array([1, 2]), np.array([1, 3]), "allclose", "1 of 2 values differ"),
        (np.ones(2), np.ones(2) + 1e-9, "exact", "2 of 2 values differ"),
        (np.array([b"a"], object), np.array([b"a"]), "exact", ""),
        (np.array([b"a"], object), np.array([b"b"]), "exact", "strings differ"),
        (np.array([np.nan, 1.0]), np.array([np.nan, 1.0]), "allclose", ""),
        (np.array([np.nan, 1.0]), np.array([1.0, 1.0]), "allclose", "largest error"),
        (np.array([1.0, np.inf]), np.array([1.0, -np.inf]), "allclose", "infinities"),
        (np.array([0.0, 1.0]), np.array([1.0, 0.0]), "stats", ""),
        (np.zeros(0), np.zeros(0), "allclose", ""),
    ],
)
def test_comparison_reports_the_expected_problem(
    actual: Any, expected: Any, mode: str, problem: str
) -> None:
    _, message = compare(actual, expected, mode, rtol=1e-4, atol=1e-5)
    assert problem in message
    assert bool(problem) == bool(message)


def test_cases_are_found_by_folder_or_file(tmp_path: Path) -> None:
    for name in ("b", "a"):
        written(tmp_path / name, [], [], feeds=[])
    assert [path.name for path in case_folders([tmp_path, tmp_path / "a"])] == ["a", "b"]


def test_own_cases_give_their_expected_results(tmp_path: Path) -> None:
    from benchmark.graphmill_system import Runner

    write_own_cases(tmp_path)
    folders = case_folders([tmp_path])
    assert {folder.name for folder in folders} == set(OWN_CASES)
    for folder in folders:
        case = CaseFolder(folder, tmp_path)
        runner = Runner(case, {})
        for step in range(case.steps):
            assert case.check(runner.step(*case.feeds(step)), step)[1] == "", folder.name
        runner.close()
