"""Folders are opened, and used, without following links."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from graphmill.access import folder as module
from graphmill.access.folder import Folder, canonical_path, split
from graphmill.errors import PermissionDeniedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(params=[True, False], ids=["openat", "paths"])
def tree(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder; also on a system without `openat`."""
    if not request.param:
        monkeypatch.setattr(module, "_IS_SUPPORTED", False)
        monkeypatch.setattr(module, "_NO_FOLLOW", 0)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to(tmp_path / "inner")
    (tmp_path / "inner" / "linked").symlink_to(tmp_path / "inner" / "file")
    return tmp_path


def read(opened: Folder, name: str) -> bytes:
    with os.fdopen(opened.open(name, os.O_RDONLY), "rb") as file:
        return file.read()


def test_folder_opens_lists_renames_and_removes(tree: Path) -> None:
    with Folder(str(tree / "inner")) as opened:
        assert read(opened, "file") == b"text"
        assert opened.names() == ["file", "linked"]
        assert opened.status("none") is None
        opened.rename("file", opened, "other")
        opened.remove("other")
        assert opened.names() == ["linked"]


def test_folder_is_created_with_its_parents(tree: Path) -> None:
    with Folder(str(tree / "a" / "b"), create=True):
        assert (tree / "a" / "b").is_dir()
    with Folder(str(tree / "a")) as opened:
        opened.remove_folder("b")
    assert not (tree / "a" / "b").exists()


def test_link_on_the_way_or_at_the_end_is_refused(tree: Path) -> None:
    with pytest.raises(PermissionDeniedError, match="link"):
        Folder(str(tree / "link"))
    with (
        Folder(str(tree / "inner")) as opened,
        pytest.raises(PermissionDeniedError, match="linked"),
    ):
        opened.open("linked", os.O_RDONLY)


def test_missing_folder_and_file_in_the_way_are_os_errors(tree: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Folder(str(tree / "none" / "deep")).open("x", os.O_RDONLY)
    with pytest.raises(NotADirectoryError):
        Folder(str(tree / "inner" / "file" / "x")).open("x", os.O_RDONLY)


def test_descriptors_are_closed(tree: Path, descriptors_below: Callable[[Path], list[str]]) -> None:
    for _ in range(3):
        with Folder(str(tree / "inner")) as opened:
            read(opened, "file")
            assert len(descriptors_below(tree)) == module._IS_SUPPORTED
        with pytest.raises(OSError, match="none"):
            Folder(str(tree / "none" / "x")).open("y", os.O_RDONLY)
    assert not descriptors_below(tree)


def test_canonical_path_is_the_real_path(tree: Path) -> None:
    for path in ("inner/file", "link/file", "inner/linked", "none/x", "inner/../link", "/", "."):
        assert canonical_path(str(tree / path)) == os.path.realpath(tree / path)
    with pytest.raises(ValueError, match="null"):
        canonical_path("a\0b")


def test_path_of_a_deleted_file_is_not_taken(tree: Path) -> None:
    with (tree / "gone").open("wb") as file:
        path = f"/proc/self/fd/{file.fileno()}"
        (tree / "gone").unlink()
        assert canonical_path(path) == os.path.realpath(path)


def test_folder_is_walked_without_a_file_system_of_processes(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_path_of", lambda _fd: "")
    with Folder(str(tree / "inner")) as opened:
        assert read(opened, "file") == b"text"
    with pytest.raises(PermissionDeniedError, match="link"):
        Folder(str(tree / "link"))
    assert canonical_path(str(tree / "link")) == str(tree / "inner")


def test_split_names_the_folder_and_the_file() -> None:
    assert split("/a/b") == ("/a", "b")
    assert split("/") == ("/", ".")
