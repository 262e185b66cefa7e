"""The pinned requirements of development environments agree with pyproject.toml."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("packaging")

PROJECT = """
[project]
name = "My_Project"
dependencies = ["one>=1.5", "two>=2; python_version < '3.12'"]

[project.optional-dependencies]
a = ["three>=3", "my-project[b]"]
b = ["four>=4,<5", "my-project[a]"]
c = ["five>=5"]
"""
HASH = "    --hash=sha256:" + "0" * 64


@pytest.fixture
def lock_requirements(tool: Any) -> Any:
    return tool("lock_requirements")


def test_stored_pins_agree_with_the_requirements(lock_requirements: Any) -> None:
    assert lock_requirements.check() == []


def test_every_stored_pin_has_hashes(lock_requirements: Any) -> None:
    pins = lock_requirements.read_pins(lock_requirements.LOCK.read_text("utf-8"))
    assert len(pins) > 50
    assert all(pin.hashes for pin in pins)


def test_extras_of_extras_are_followed(lock_requirements: Any) -> None:
    project = lock_requirements.read_project(PROJECT)
    names = {requirement.name for requirement in project.requirements(["a"])}
    assert names == {"one", "two", "three", "four"}


def found(lock_requirements: Any, *lines: str) -> list[str]:
    project = lock_requirements.read_project(PROJECT)
    pins = lock_requirements.read_pins("\n".join(lines))
    return list(lock_requirements.faults(project.requirements(["c"]), pins))


def test_pins_of_several_pythons_are_all_compared(lock_requirements: Any) -> None:
    one = [f"One=={version} ; python_version < '3.12' \\\n{HASH}" for version in ("1.4", "1.6")]
    rest = [f"two==2.0 \\\n{HASH} \\\n{HASH}", f"five==5.0rc1 \\\n{HASH}"]
    assert found(lock_requirements, "# a comment", *one, *rest) == [
        "one==1.4 is pinned, but one>=1.5 is required",
        "five==5.0rc1 is pinned, but five>=5 is required",
    ]


def test_missing_pins_and_hashes_are_faults(lock_requirements: Any) -> None:
    assert found(lock_requirements, "one==1.5", f"two==2 \\\n{HASH}") == [
        "one==1.5 has no hash",
        "five is required, but not pinned",
    ]


@pytest.mark.parametrize("line", ["one>=1.5", HASH, "-e .", "--index-url https://example.org"])
def test_line_that_is_not_a_pin_is_refused(lock_requirements: Any, line: str) -> None:
    with pytest.raises(ValueError, match="line 1 is no pinned version"):
        lock_requirements.read_pins(line)
