"""The workflows of hosted continuous integration run commands and environments that exist."""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
_FILE = re.compile(r"(?:tools/\w+\.py|\.ci/run)")
_ENVIRONMENT = re.compile(r"tox -e (\S+)")


def jobs_of(path: Path) -> dict[str, Any]:
    """Return the jobs of a workflow by name."""
    jobs: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    return jobs


def commands_of(job: dict[str, Any]) -> list[str]:
    """Return the commands of a job, for each environment of its matrix."""
    environments = job.get("strategy", {}).get("matrix", {}).get("environment", [""])
    return [
        step["run"].replace("${{ matrix.environment }}", environment)
        for environment in environments
        for step in job["steps"]
        if "run" in step
    ]


def commands() -> dict[str, list[str]]:
    """Return the commands of all jobs of each workflow."""
    return {
        path.stem: [command for job in jobs_of(path).values() for command in commands_of(job)]
        for path in WORKFLOWS
    }


def test_each_environment_is_defined() -> None:
    """Each environment of tox that a workflow runs is in `tox.ini`."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "tox.ini", encoding="utf-8")
    text = "\n".join(command for listed in commands().values() for command in listed)
    environments = _ENVIRONMENT.findall(text)
    assert environments
    assert [name for name in environments if f"testenv:{name}" not in config] == []


def test_each_file_exists() -> None:
    """Each tool that a workflow runs is in the repository."""
    files = {
        name for listed in commands().values() for command in listed
        for name in _FILE.findall(command)
    }  # fmt: skip
    assert files == {".ci/run", "tools/fuzz_nightly.py"}
    assert all((ROOT / name).is_file() for name in files)


def test_each_change_is_tested_and_audited() -> None:
    """A change runs the tests on every Python, and looks up known vulnerabilities."""
    assert ".ci/run" in commands()["ci"]
    assert "tox -e audit" in commands()["ci"]
    versions = [
        step["with"]["python-version"].split()
        for step in jobs_of(ROOT / ".github" / "workflows" / "ci.yml")["test"]["steps"]
        if "setup-python" in step.get("uses", "")
    ]
    assert versions == [["3.11", "3.12", "3.13", "3.14"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.stem))
def test_a_workflow_may_only_read(path: Path) -> None:
    """The token of a workflow cannot change the repository."""
    assert yaml.safe_load(path.read_text("utf-8"))["permissions"] == {"contents": "read"}
