"""`Saver(write_version=…)`: checkpoints of the first format are written, found and restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import errors, proto, train
from graphmill.saved.v1_checkpoint import is_v1_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

V1 = proto.SaverDef.V1


@pytest.fixture
def session() -> Any:
    """Return a session with initialized variables of both kinds."""
    graph = graphmill.Graph()
    with graph.as_default():
        v = graphmill.Variable([1.0, 2.0], name="v")
        r = graphmill.Variable([3], name="r", use_resource=False)
    with graphmill.Session(graph=graph) as session:
        session.run([v.initializer, r.initializer])
        yield session


def test_checkpoint_of_the_first_format_is_one_file(session: Any, tmp_path: Path) -> None:
    saver = train.Saver(graph=session.graph, write_version=V1)
    path = saver.save(session, tmp_path / "m", 7)
    assert {item.name for item in tmp_path.iterdir()} == {"m-7", "m-7.meta", "checkpoint"}
    assert is_v1_checkpoint(path)
    assert train.latest_checkpoint(tmp_path) == path
    with graphmill.Session(graph=session.graph) as other:
        saver.restore(other, path)
        assert [value.tolist() for value in other.run(session.graph.variables)] == [[1, 2], [3]]


def test_saver_def_keeps_the_format(session: Any, tmp_path: Path) -> None:
    saver_def = train.Saver(graph=session.graph, write_version=V1).as_saver_def()
    assert saver_def.version == V1
    again = train.Saver(graph=session.graph, saver_def=saver_def)
    assert again.as_saver_def().version == V1
    saver_def.version = proto.SaverDef.LEGACY
    assert train.Saver(graph=session.graph, saver_def=saver_def).write_version == V1


def test_old_checkpoints_of_the_first_format_are_deleted(session: Any, tmp_path: Path) -> None:
    saver = train.Saver(graph=session.graph, max_to_keep=1, write_version=V1)
    for step in range(2):
        saver.save(session, tmp_path / "m", step)
    assert {item.name for item in tmp_path.iterdir()} == {"m-1", "m-1.meta", "checkpoint"}


def test_meta_graph_is_run_with_the_checkpoint_beside_it(session: Any, tmp_path: Path) -> None:
    from graphmill.models.loaded_model import load_model

    path = train.Saver(graph=session.graph, write_version=V1).save(session, tmp_path / "m")
    host = session.host
    loaded = load_model(f"{path}.meta", host, tags=None, signature=None, fetches=["r"])
    with loaded.session:
        assert loaded.run({})["r"].tolist() == [3]


def test_saved_model_needs_the_second_format(session: Any, tmp_path: Path) -> None:
    saver = train.Saver(graph=session.graph, write_version=V1)
    value = session.graph.variables[0].read_value()
    signature = graphmill.saved_model.build_signature_def({}, {"v": value})
    with pytest.raises(errors.InvalidArgumentError, match="format V1"):
        graphmill.saved_model.save(session, tmp_path / "model", signature, saver=saver)
    assert not (tmp_path / "model").exists()


def test_unknown_format_is_refused(session: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"no format 7; expected SaverDef\.V1"):
        train.Saver(graph=session.graph, write_version=7)
