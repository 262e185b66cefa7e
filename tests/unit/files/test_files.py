"""Files by path or URL: typed errors, atomic writes."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from graphmill import errors, files
from graphmill.files.status import typed_errors


def test_files_are_read_at_any_offset(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    reader = files.open_reader(str(path))
    buffer = bytearray(3)
    reader.read_into(4, memoryview(buffer))
    assert bytes(buffer) == b"456"
    assert reader.size == 10
    reader.close()


def test_reading_past_the_end_is_data_loss(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    reader = files.open_reader(str(path))
    with pytest.raises(errors.DataLossError, match="truncated"):
        reader.read_into(8, memoryview(bytearray(3)))
    reader.close()


def test_a_file_changed_while_open_is_data_loss(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    reader = files.open_reader(str(path))
    with path.open("ab") as file:
        file.write(b"x")
    with pytest.raises(errors.DataLossError, match="was changed"):
        reader.read_into(0, memoryview(bytearray(3)))
    reader.close()


def test_a_file_replaced_while_open_is_read_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    reader = files.open_reader(str(path))
    files.write(str(path), b"new")
    buffer = bytearray(3)
    reader.read_into(0, memoryview(buffer))
    assert bytes(buffer) == b"old"
    assert path.read_bytes() == b"new"
    reader.close()


def test_closed_files_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    reader = files.open_reader(str(path))
    reader.close()
    reader.close()
    with pytest.raises(errors.FailedPreconditionError, match="closed"):
        reader.read_into(0, memoryview(bytearray(1)))


def test_a_missing_file_is_not_found() -> None:
    with pytest.raises(errors.NotFoundError, match="/no/such"):
        files.open_reader("/no/such/file")


def test_a_folder_instead_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.FailedPreconditionError):
        files.read_bytes(str(tmp_path))


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(errors.FailedPreconditionError, match="expected a regular file"):
        files.read_bytes(str(tmp_path / "pipe"))


def test_a_path_with_nul_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="NUL"):
        files.as_path(b"a\0b")


def test_write_makes_folders_and_leaves_no_temporary(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "f"
    files.write(str(path), b"12", bytearray(b"3"), memoryview(b"4"))
    assert path.read_bytes() == b"1234"
    assert os.listdir(path.parent) == ["f"]  # noqa: PTH208


def test_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")

    def fail_halfway() -> None:
        with files.open_writer(str(path)) as writer:
            writer.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


def test_links_and_permissions_are_preserved(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o600)
    link.symlink_to(target)
    files.write(str(link), b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o600


def test_devices_are_written_straight() -> None:
    files.write("/dev/null", b"x")
    assert Path("/dev/null").is_char_device()


def test_matching_does_not_cross_folders(tmp_path: Path) -> None:
    for name in ("a1", "a2", "b1", ".a3"):
        (tmp_path / name).touch()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a4").touch()
    found = files.matching(f"{tmp_path}/a?") + files.matching(f"{tmp_path}/*4")
    assert [Path(path).name for path in found] == ["a1", "a2"]


def test_urls_go_through_fsspec() -> None:
    pytest.importorskip("fsspec")
    path = "memory://graphmill_test/folder/f"
    files.write(path, b"0123", b"456")
    assert files.read_bytes(path) == b"0123456"
    assert files.exists(path)
    assert files.is_dir("memory://graphmill_test/folder")
    assert files.list_dir("memory://graphmill_test/folder") == ["f"]
    files.rename(path, path + "2")
    assert files.matching("memory://graphmill_test/folder/*") == [
        "memory:///graphmill_test/folder/f2"
    ]
    files.remove(path + "2")
    with pytest.raises(errors.NotFoundError):
        files.open_reader(path)


def test_an_unknown_scheme_is_a_typed_error() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(errors.UnimplementedError, match="nosuchscheme"):
        files.open_reader("nosuchscheme://x/y")


def test_paths_join_and_split() -> None:
    assert files.join("/a", "b", "c") == "/a/b/c"
    assert files.join("gs://a", "b") == "gs://a/b"
    assert files.parent("/a/b") == "/a"
    assert files.parent("/a") == "/"
    assert files.parent("a") == ""
    assert files.parent("gs://a/b/c") == "gs://a/b"


@pytest.mark.parametrize(
    "ask", [files.exists, files.is_dir, files.list_dir, files.read_bytes], ids=lambda f: f.__name__
)
def test_path_of_5000_characters_is_a_typed_error(ask: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="name too long"):
        ask("/" + "a" * 5_000)


@pytest.mark.parametrize(
    ("number", "kind", "advice"),
    [
        (errno.ENOSPC, errors.ResourceExhaustedError, "free space on the file system"),
        (errno.EROFS, errors.PermissionDeniedError, "another file system"),
        (errno.EMFILE, errors.ResourceExhaustedError, "ulimit -n"),
        (errno.EACCES, errors.PermissionDeniedError, None),
    ],
)
def test_an_error_of_the_system_says_what_to_do(
    number: int, kind: type[errors.OpError], advice: str | None
) -> None:
    with pytest.raises(kind, match="/full/x: ") as caught, typed_errors("/full/x"):
        raise OSError(number, os.strerror(number))
    notes = getattr(caught.value, "__notes__", [])
    assert (advice is None and not notes) or advice in notes[0]
