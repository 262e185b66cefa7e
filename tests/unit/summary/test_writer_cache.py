"""`FileWriterCache` gives all users of a folder the same writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import graphmill
from graphmill import summary
from graphmill.errors import FailedPreconditionError, OpError
from graphmill.summary import FileWriterCache

if TYPE_CHECKING:
    from pathlib import Path


def graph_of_a_constant() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        graph.constant(1.0, name="one")
    return graph


def test_users_of_a_folder_share_a_writer_until_the_last_releases_it(tmp_path: Path) -> None:
    with graph_of_a_constant().as_default():
        first, second = FileWriterCache.get(tmp_path), FileWriterCache.get(str(tmp_path))
        other = FileWriterCache.get(tmp_path / "other")
    assert first is second
    assert first is not other
    FileWriterCache.release(first)
    second.add_scalar("x", 1.0)
    FileWriterCache.release(second)
    with pytest.raises(FailedPreconditionError, match="is closed"):
        second.add_scalar("x", 2.0)
    other.add_scalar("x", 3.0)
    FileWriterCache.release(other)
    assert len(list(tmp_path.glob("events*"))) == 1


def test_a_writer_that_somebody_closed_is_opened_again(tmp_path: Path) -> None:
    with graph_of_a_constant().as_default():
        FileWriterCache.get(tmp_path).close()
        writer = FileWriterCache.get(tmp_path)
    writer.add_scalar("x", 1.0)
    FileWriterCache.clear()
    with pytest.raises(FailedPreconditionError, match="is closed"):
        writer.add_scalar("x", 2.0)


def test_writer_of_another_owner_is_not_closed(tmp_path: Path) -> None:
    with summary.FileWriter(tmp_path) as writer:
        FileWriterCache.release(writer)
        writer.add_scalar("x", 1.0)


def test_a_folder_that_cannot_be_created_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with graph_of_a_constant().as_default():
        for _ in range(2):
            with pytest.raises(OpError):
                FileWriterCache.get(tmp_path / "file" / "logs")
