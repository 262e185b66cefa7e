"""Models are refused where they cannot be isolated as required, with the reason."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from graphmill import errors, saved_model
from graphmill.isolation import IsolatedSession, IsolationLimits, protections

MODEL = Path(__file__).parents[3] / "examples" / "digits" / "saved_model_tf2"


def raising(error: Exception) -> Any:
    def call() -> Any:
        raise error

    return call


@pytest.fixture
def linux(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Make the checks detect a Linux system with all protections."""
    monkeypatch.setattr(protections, "_system_fault", str)
    monkeypatch.setattr(protections, "landlock_abi", lambda: 7)
    monkeypatch.setattr(protections, "seccomp_library", object)
    monkeypatch.setattr(protections, "_ACTIONS", __file__)
    return monkeypatch


def test_supported_system_passes_the_check(linux: pytest.MonkeyPatch) -> None:
    protections.check_protections(("landlock", "seccomp"))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("landlock_abi", raising(ImportError()), r"package landlock is not installed; pip install"),
        ("landlock_abi", raising(OSError(95, "off")), "kernel has no Landlock, or it is switched"),
        ("landlock_abi", lambda: 2, "version 2 of Landlock, but version 3"),
        ("seccomp_library", raising(ImportError()), "package pyseccomp is not installed; pip"),
        ("seccomp_library", raising(RuntimeError("no lib")), "needs the library libseccomp 2"),
        ("_ACTIONS", "/nowhere", "no seccomp filters"),
        ("_system_fault", lambda: "isolation needs Linux", "needs Linux"),
    ],
)
def test_missing_protection_is_named(
    linux: pytest.MonkeyPatch, name: str, value: Any, message: str
) -> None:
    linux.setattr(protections, name, value)
    with pytest.raises(errors.UnimplementedError, match=message) as caught:
        protections.check_protections(("landlock", "seccomp"))
    assert "container" in caught.value.message


def test_protection_that_is_not_required_is_not_checked(linux: pytest.MonkeyPatch) -> None:
    linux.setattr(protections, "landlock_abi", raising(ImportError()))
    protections.check_protections(("seccomp",))


@pytest.mark.parametrize("package", ["landlock", "pyseccomp"])
def test_nothing_is_started_without_the_packages(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("graphmill.isolation.isolated_session.ChildProcess", None)
    with pytest.raises(errors.UnimplementedError, match="cannot be isolated"):
        saved_model.load(MODEL, isolate=True)
    with pytest.raises(errors.UnimplementedError, match="cannot be isolated"):
        IsolatedSession(MODEL, limits=IsolationLimits(memory_bytes=1 << 30))


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    monkeypatch.setattr(protections.sys, "platform", system)
    with pytest.raises(errors.UnimplementedError, match=f"needs Linux, this is {system}"):
        protections.check_protections(())
