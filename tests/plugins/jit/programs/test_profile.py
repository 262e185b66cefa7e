"""Functions run in one profile at a time."""

from __future__ import annotations

import tempfile

import pytest

jax = pytest.importorskip("jax")

from graphmill_plugins.jit.programs.profile import Profile  # noqa: E402 - needs JAX

pytestmark = pytest.mark.jax


def started() -> Profile:
    profile = Profile()
    profile.start()
    return profile


def test_a_profile_has_the_operations_of_one_program() -> None:
    def doubled(x: object) -> object:
        return jax.numpy.tanh(x) * 2

    program = jax.jit(doubled)
    jax.block_until_ready(program(1.0))
    profile = started()
    jax.block_until_ready(program(1.0))
    profile.stop()
    assert profile.runs("jit_other") == []
    assert profile.runs("jit_doubled")
    profile.close()


def test_a_second_profile_is_refused() -> None:
    first = started()
    second = started()
    assert (first.why_not, second.why_not) == ("", "another cluster was being measured")
    second.stop()
    second.close()
    first.stop()
    first.close()
    third = started()
    assert not third.why_not
    third.stop()
    third.close()


def test_a_profile_without_a_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(prefix: str) -> None:
        raise PermissionError(f"{prefix}: no folder")

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "TemporaryDirectory", refused)
        profile = started()
    assert profile.why_not == "PermissionError: graphmill-profile-: no folder"
    profile.close()
    again = started()
    assert not again.why_not
    again.stop()
    again.close()
