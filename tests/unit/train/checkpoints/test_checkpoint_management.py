"""Checkpoints are found and deleted, whatever their folders are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import graphmill
from graphmill import train

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("google_crc32c")


@pytest.fixture
def session() -> graphmill.Session:
    graph = graphmill.Graph()
    with graph.as_default():
        graphmill.Variable([1.0, 2.0], name="v")
    session = graphmill.Session(graph=graph)
    session.run(graph.variables[0].initializer)
    return session


def test_checkpoint_exists_until_it_is_removed(session: graphmill.Session, tmp_path: Path) -> None:
    path = train.Saver(graph=session.graph).save(session, tmp_path / "m")
    assert path is not None
    assert train.checkpoint_exists(path)
    train.remove_checkpoint(path)
    assert not train.checkpoint_exists(path)
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]


def test_old_checkpoints_are_deleted_from_a_folder_with_brackets(
    session: graphmill.Session, tmp_path: Path
) -> None:
    saver = train.Saver(max_to_keep=1, graph=session.graph)
    for step in range(2):
        saver.save(session, tmp_path / "run[1]" / "m", step)
    left = sorted(file.name for file in (tmp_path / "run[1]").glob("m-0*"))
    assert left == []
