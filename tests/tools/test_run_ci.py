"""CI runs everything once, prints logs in order and summarizes the results."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import tomllib
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest

from graphmill.testing.timeouts import TIMEOUT, within

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def logs_of_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the logs of runs to pytest's temporary folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture
def ci(tool: Any) -> Any:
    return tool("run_ci")


def python(ci: Any, minor: int) -> Any:
    return ci.Python(Path(f"/bin/python3.{minor}"), (3, minor, 1))


def use_programs(ci: Any, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    """Replace each command of the README by a Python program; there are no other commands."""
    monkeypatch.setattr(ci, "OTHER_COMMANDS", ())
    monkeypatch.setattr(ci.check_commits, "main", lambda _: 0)
    monkeypatch.setattr(
        ci.Run, "arguments", property(lambda run: [sys.executable, "-c", programs[run.command]])
    )


def test_plan_has_each_python_and_once_the_oldest_dependencies(ci: Any) -> None:
    runs = ci.plan([python(ci, 11), python(ci, 13)], ["run", "test"])
    assert [(run.python.minor, run.dependencies, run.command) for run in runs] == [
        (11, "newest", "test"),
        (13, "newest", "test"),
        (11, "oldest", "test"),
        (11, "newest", "run"),
        (13, "newest", "run"),
        (11, "oldest", "run"),
    ]


def test_plan_tries_the_small_installation_once(ci: Any) -> None:
    runs = ci.plan([python(ci, 11), python(ci, 13)], ["run", "lite"])
    assert [run.python.minor for run in runs if run.command == "lite"] == [13]
    (lite,) = (run for run in runs if run.command == "lite")
    assert lite.arguments[1].endswith("try_lite.py")
    assert lite.arguments[2:] == ["--python", "/bin/python3.13"]


def test_plan_serializes_runs_that_share_compiled_programs(ci: Any) -> None:
    """Runs that share compiled programs are executed one after the other."""
    runs = ci.plan([python(ci, minor) for minor in (11, 12, 13)], ["test"])
    assert [(run.python.minor, run.dependencies) for run in runs] == [
        (11, "newest"),
        (12, "newest"),
        (11, "oldest"),
        (13, "newest"),
    ]


def test_tests_share_compiled_programs_and_the_answer_of_the_readme_has_none(
    ci: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "import sys; print(sys.argv[1:])"
    use_programs(ci, monkeypatch, run=line, test=line)
    said = {}
    for minor in (11, 12):
        for command in ("run", "test"):
            run = ci.Run(python(ci, minor), "newest", command)
            assert ci.execute(run, tmp_path, ci.Running()).code == 0
            said[minor, command] = (tmp_path / run.log_name).read_text().strip()
    shared = str(["--compiled", str(tmp_path / "compiled")])
    assert said == {
        (11, "run"): "[]",
        (12, "run"): "[]",
        (11, "test"): shared,
        (12, "test"): shared,
    }


def test_tests_are_divided_among_the_runs_of_their_command(ci: Any) -> None:
    pythons = [python(ci, minor) for minor in (11, 12)]
    runs = ci.divide(ci.plan(pythons, ["run", "test"]))
    assert [(run.command, run.share) for run in runs] == [
        ("test", "1/3"),
        ("test", "2/3"),
        ("test", "3/3"),
        ("run", "1/1"),
        ("run", "1/1"),
        ("run", "1/1"),
    ]
    assert runs[1].arguments[-2:] == ["--share", "2/3"]
    (alone,) = ci.divide([ci.Run(pythons[0], "newest", "test")])
    assert "--share" not in alone.arguments


def test_plan_skips_oldest_dependencies_without_wheels(ci: Any) -> None:
    runs = ci.plan([python(ci, 12)], ["run", "test"])
    assert {run.dependencies for run in runs} == {"newest"}
    assert ci.plan([], ["run"]) == []


def test_run_passes_options_to_run_readme(ci: Any) -> None:
    newest, oldest = (ci.Run(python(ci, 11), which, "test") for which in ("newest", "oldest"))
    assert newest.arguments[2:] == ["test", "--python", "/bin/python3.11"]
    assert oldest.arguments[2:-1] == [*newest.arguments[2:], "--constraints"]
    assert Path(oldest.arguments[-1]).is_file()


@pytest.mark.parametrize(
    ("output", "code", "tests"),
    [
        ("12 passed, 3 skipped, 2 deselected in 4.50s (0:00:04)", 0, (12, 0)),
        ("== 2 failed, 12 passed, 1 error in 4.50s ==", 1, (12, 3)),
        ("1 passed in 1.0s\nsome\n5 passed in 2.0s\n(Python 3.11)", 0, (5, 0)),
        ("12 passed in 4.50s", 1, (12, 1)),  # it crashed while it ended
        ("7  0.98", 0, (1, 0)),
        ("ERROR: no matching distribution", 1, (0, 1)),
    ],
)
def test_tests_are_counted_as_pytest_says(
    ci: Any, output: str, code: int, tests: tuple[int, int]
) -> None:
    assert ci.tests_of(output, code) == tests


def test_job_outputs_are_grouped_and_summary_is_last(
    ci: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "import sys; print('{0} line'); print('{0} end', file=sys.stderr)"
    tests = f"{line.format('test')}; print('3 passed in 0.1s')"
    use_programs(ci, monkeypatch, run=line.format("run"), test=tests)
    monkeypatch.setattr(ci, "find_pythons", lambda **_: [python(ci, 11), python(ci, 12)])
    assert ci.main(["--at-once", "2"]) == 0
    printed = capsys.readouterr().out
    blocks = re.findall(r"\n===== (.+)\n((?:.+\n)+)", printed)
    assert len(blocks) == 6
    more = {"run": set(), "test": {"3 passed in 0.1s"}}
    for head, block in blocks:
        command = head.rpartition(" ")[2]
        said = {text for text in block.splitlines() if not text.startswith("started")}
        assert said == {f"{command} line", f"{command} end"} | more[command]
    assert printed.splitlines()[-1] == "12 passed, 0 failed"  # three suites, three answers
    row = re.compile(r"^3\.1[12]\.1 +(?:new|old)est +(?:run|test) +passed", re.MULTILINE)
    assert len(row.findall(printed)) == 6


def test_compiled_programs_go_when_all_has_run(
    ci: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = "import pathlib, sys; pathlib.Path(sys.argv[2], 'programs').mkdir(parents=True)"
    use_programs(ci, monkeypatch, test=make, run="")
    monkeypatch.setattr(ci, "find_pythons", lambda **_: [python(ci, 12)])
    monkeypatch.setattr(ci.tempfile, "mkdtemp", lambda **_: str(tmp_path))
    assert ci.main([]) == 0
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".log", ".log"]


def test_compiled_programs_stay_in_a_folder_that_is_named(
    ci: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = "import pathlib, sys; pathlib.Path(sys.argv[2], 'programs').mkdir(parents=True)"
    use_programs(ci, monkeypatch, test=make, run="")
    monkeypatch.setattr(ci, "find_pythons", lambda **_: [python(ci, 12)])
    assert ci.main(["--compiled", str(tmp_path / "mine")]) == 0
    assert (tmp_path / "mine" / "programs").is_dir()


def test_one_failure_fails_the_run_after_all_jobs(
    ci: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_programs(ci, monkeypatch, run="print('fine')", test="raise SystemExit('no pip')")
    monkeypatch.setattr(ci, "find_pythons", lambda **_: [python(ci, 12)])
    assert ci.main([]) == 1
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1] == "1 passed, 1 failed"
    assert re.search(r"^3\.12\.1 +newest +test +failed", printed, re.MULTILINE)
    assert "===== last lines of the failed Python 3.12.1, newest dependencies" in printed


def test_bad_commit_message_fails_the_run(
    ci: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_programs(ci, monkeypatch, run="print('fine')", test="print('fine')")
    monkeypatch.setattr(ci, "find_pythons", lambda **_: [python(ci, 12)])
    monkeypatch.setattr(ci.check_commits, "main", lambda _: 1)
    assert ci.main(["--command", "run"]) == 0
    capsys.readouterr()
    assert ci.main([]) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "commit messages break the rules of CONTRIBUTING.md; they are listed at the top",
        "2 passed, 0 failed",
    ]


def test_the_end_of_a_log_leaves_out_progress(ci: Any) -> None:
    log = "first\n" * 2000 + "....s.. [ 67%]\nFatal Python error: Segmentation fault\n....\n\n"
    end = ci.end_of(log)
    assert end.endswith("first\nFatal Python error: Segmentation fault")
    assert len(end) <= 6000


def test_a_run_that_does_not_end_fails(
    ci: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_programs(ci, monkeypatch, test="import time; time.sleep(1000)")
    run = ci.Run(python(ci, 11), "newest", "test")
    outcome = ci.execute(run, tmp_path, ci.Running(), limit=0.1)
    assert (outcome.code, outcome.failed) == (124, 1)
    assert "stopped: the run did not end within 0.1 s" in (tmp_path / run.log_name).read_text()


def test_the_children_of_a_run_end_with_it(ci: Any) -> None:
    """The children of a run end with it."""
    program = """if True:
        import subprocess, sys
        child = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(1000)"]
        subprocess.run(child)"""
    running = ci.Running()
    source, sink = os.pipe()
    with os.fdopen(source) as output:
        with os.fdopen(sink, "w") as file:
            process = running.start([sys.executable, "-c", program], file)
        assert output.readline() == "begun\n"
        running.end(process)
        assert within(output.read, "the child lives on") == ""


def test_runs_end_with_their_parent_process() -> None:
    program = """if True:
        import sys; sys.path.insert(0, sys.argv[1])
        from pathlib import Path
        import run_ci
        run_ci.find_pythons = lambda **_: [run_ci.Python(Path("x"), (3, 12, 1))]
        run_ci.Run.arguments = [sys.executable, "-c", "import time; time.sleep(1000)"]
        run_ci.main(["--command", "run"])"""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(ROOT / "tools")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert any(line.startswith("started: ") for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT) == 128 + signal.SIGTERM


def test_sigterm_handler_is_restored(ci: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    use_programs(ci, monkeypatch, run="")
    monkeypatch.setattr(ci, "find_pythons", lambda **_: [python(ci, 12)])
    before = signal.getsignal(signal.SIGTERM)
    assert ci.main(["--command", "run"]) == 0
    assert signal.getsignal(signal.SIGTERM) is before


def test_run_fails_without_a_python(
    ci: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ci, "find_pythons", lambda **_: [])
    assert ci.main([]) == 1
    assert "found no Python 3.11 to 3.14" in capsys.readouterr().err


def test_a_dry_run_starts_nothing(
    ci: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ci, "find_pythons", lambda **_: [python(ci, 11)])
    monkeypatch.setattr(ci, "execute_all", None)
    assert ci.main(["--dry-run", "--dependencies", "oldest"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"would run: Python 3.11.1, oldest dependencies: {name} (/bin/python3.11)"
        for name in ("test", "run")
    ]


def pins() -> dict[str, str]:
    """Return the pinned version of each distribution, by its name in lower case."""
    lines = (ROOT / "tools" / "oldest-dependencies.txt").read_text("utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {name.lower(): version for name, version in pairs}


def test_the_oldest_dependencies_are_those_that_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    chosen = (
        extras[name]
        for name in ("image", "grpc", "isolate", "serve", "opentelemetry", "export", "onnx")
    )
    declared = [*project["dependencies"], *(line for extra in chosen for line in extra)]
    assert set(pins()) == {line.split(">=")[0].lower() for line in declared}
    for line in declared:
        name, _, lowest = line.partition(";")[0].strip().partition(">=")
        assert f"{pins()[name.lower()]}.".startswith(f"{lowest}."), name


def test_tox_and_ci_share_the_oldest_dependencies() -> None:
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    assert tox["testenv:min"]["deps"].strip() == "-r {toxinidir}/tools/oldest-dependencies.txt"
