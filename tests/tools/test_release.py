"""A release whose versions or changelog disagree is refused; others are tried as a user would."""

from __future__ import annotations

import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def release(tool: Any) -> Any:
    return tool("release")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "core" / "graphmill").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    (tmp_path / "core" / "graphmill" / "__init__.py").write_text('__version__ = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0 (2026-11-24)\n")
    return tmp_path


def test_consistent_tree_has_no_faults(release: Any, root: Path) -> None:
    assert release.faults(root) == []


def test_another_version_of_the_package_is_a_fault(release: Any, root: Path) -> None:
    (root / "core" / "graphmill" / "__init__.py").write_text('__version__ = "1.1.0"\n')
    assert release.faults(root) == [
        "pyproject.toml has version 1.2.0, graphmill.__version__ is '1.1.0'"
    ]


def test_missing_section_is_a_fault(release: Any, root: Path) -> None:
    (root / "CHANGELOG.md").write_text("# Changelog\n\n## 1.1.0\n")
    assert release.faults(root) == ["CHANGELOG.md has no section '## 1.2.0'"]


def test_versions_of_this_checkout_are_equal(release: Any) -> None:
    assert [fault for fault in release.faults() if "__version__" in fault] == []


def test_first_failure_ends_the_trial(
    release: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = ["echo one", "exit 3", "echo three"]
    monkeypatch.setattr(release, "commands", lambda *_: lines)
    python = release.probe(Path(sys.executable))
    assert python is not None
    assert release.try_distribution(Path("x.whl"), python) == 3
    said = capfd.readouterr()
    assert "one" in said.out
    assert "three" not in said.out
    assert "failed with 3: exit 3" in said.err


def test_each_kind_of_use_is_tried(release: Any, tmp_path: Path) -> None:
    text = "\n".join(release.commands(Path("graphmill.whl"), tmp_path))
    for used in ("pip check", "graphmill run", "new-plugin", "graphmill doctor", "--version"):
        assert used in text


def test_bill_of_materials_describes_an_environment_without_its_tool() -> None:
    """What is installed to write it is no part of what is distributed."""
    tox = ConfigParser(interpolation=None)
    tox.read(Path(__file__).parents[2] / "tox.ini")
    sbom = tox["testenv:sbom"]
    text = sbom["commands"].replace("\\\n", " ")
    _, make, install, describe = [line.split() for line in text.strip().splitlines()]
    folder = describe[-1]
    assert describe[:2] == ["cyclonedx-py", "environment"]
    assert make == ["python", "-m", "venv", "--clear", "--without-pip", folder]
    assert install[install.index("--python") + 1] == folder
    assert install[-1] == "{toxinidir}[image,grpc]"
    assert sbom.getboolean("skip_install")
