"""`graphmill doctor` checks the compile cache folders."""

from __future__ import annotations

import os

import pytest

from graphmill.cli.diagnostics.compile_cache import VARIABLES, advice_on_cache, cache_sizes

needs_owners = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """Return the configured folder, which does not exist yet."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "programs"
    monkeypatch.setenv("GRAPHMILL_JIT_CACHE_DIR", str(path))
    return path


def test_nothing_is_advised_without_a_folder(monkeypatch) -> None:
    monkeypatch.delenv("GRAPHMILL_JIT_CACHE_DIR")
    assert cache_sizes() == {"compilation cache": None}
    assert advice_on_cache() == []


def test_a_folder_that_is_not_made_yet_is_fine(folder) -> None:
    assert cache_sizes() == {str(folder): None}
    assert advice_on_cache() == []


def test_the_size_is_that_of_all_files(folder) -> None:
    folder.mkdir(mode=0o700)
    (folder / "a.program").write_bytes(b"12345")
    (folder / "b.program").write_bytes(b"678")
    assert cache_sizes() == {str(folder): 8}
    assert advice_on_cache() == []


@needs_owners
def test_world_writable_folder_is_reported(folder) -> None:
    folder.mkdir()
    folder.chmod(0o755)
    (line,) = advice_on_cache()
    assert line.endswith(f"chmod 700 {folder}")


@needs_owners
def test_folder_of_another_user_is_reported(folder, monkeypatch) -> None:
    folder.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    (line,) = advice_on_cache()
    assert "belongs to another user" in line


def test_file_in_place_of_cache_folder_is_reported(folder) -> None:
    folder.write_text("")
    (line,) = advice_on_cache()
    assert "is not a folder" in line
