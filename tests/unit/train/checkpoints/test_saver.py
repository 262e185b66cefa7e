"""`Saver`: checkpoints are written, found, restored, deleted or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import text_format

import graphmill
from graphmill import errors, proto, train

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("google_crc32c")


@pytest.fixture
def made() -> Any:
    """Return a session with initialized variables of both kinds, and a saver."""
    graph = graphmill.Graph()
    with graph.as_default():
        v = graphmill.Variable([1.0, 2.0], name="v")
        r = graphmill.Variable([3], name="r", use_resource=False)
        saver = train.Saver(max_to_keep=2)
    with graphmill.Session(graph=graph) as session:
        session.run([v.initializer, r.initializer])
        yield session, saver, v, r


def test_save_and_restore_round_trip(made: Any, tmp_path: Path) -> None:
    session, saver, v, r = made
    path = saver.save(session, tmp_path / "model", 7)
    assert path == str(tmp_path / "model-7")
    with graphmill.Session(graph=v.graph) as other:
        saver.restore(other, path)
        values = other.run([v, r])
    assert [value.tolist() for value in values] == [[1, 2], [3]]


def test_the_oldest_checkpoints_are_dropped(made: Any, tmp_path: Path) -> None:
    session, saver, *_ = made
    for step in range(4):
        saver.save(session, tmp_path / "m", step)
    assert saver.last_checkpoints == [str(tmp_path / "m-2"), str(tmp_path / "m-3")]
    assert sorted(path.name for path in tmp_path.glob("*.index")) == ["m-2.index", "m-3.index"]
    assert train.latest_checkpoint(tmp_path) == str(tmp_path / "m-3")
    state = train.get_checkpoint_state(tmp_path)
    assert list(state.all_model_checkpoint_paths) == saver.last_checkpoints


def test_a_relative_path_is_noted_relative_to_its_folder(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session, saver, *_ = made
    saver.save(session, "folder/m", 1)
    assert 'model_checkpoint_path: "m-1"' in (tmp_path / "folder" / "checkpoint").read_text()
    assert train.latest_checkpoint("folder") == "folder/m-1"


def test_the_meta_graph_names_variables_and_saver(made: Any) -> None:
    _, saver, *_ = made
    message = saver.export_meta_graph()
    assert message.saver_def.restore_op_name == "save/restore_all"
    assert message.saver_def.filename_tensor_name == "save/Const:0"
    assert len(message.collection_def["variables"].bytes_list.value) == 2


@pytest.mark.parametrize("as_text", [False, True])
def test_the_meta_graph_can_be_written_to_a_file(made: Any, tmp_path: Path, as_text: bool) -> None:
    _, saver, *_ = made
    message = saver.export_meta_graph(tmp_path / "m.meta", as_text=as_text)
    content = (tmp_path / "m.meta").read_bytes()
    stored = proto.MetaGraphDef()
    if as_text:
        text_format.Parse(content.decode(), stored)
    else:
        stored.ParseFromString(content)
    assert stored == message


def test_variables_are_restored_under_other_names(made: Any, tmp_path: Path) -> None:
    session, saver, *_ = made
    path = saver.save(session, tmp_path / "m")
    graph = graphmill.Graph()
    with graph.as_default():
        mine = graphmill.Variable([0.0, 0.0], name="mine")
        loader = train.Saver({"v": mine})
    with graphmill.Session(graph=graph) as other:
        loader.restore(other, path)
        assert other.run(mine).tolist() == [1, 2]


def test_a_missing_checkpoint_is_refused(made: Any, tmp_path: Path) -> None:
    session, saver, *_ = made
    with pytest.raises(errors.InvalidArgumentError, match="not a valid checkpoint"):
        saver.restore(session, tmp_path / "nothing")


def test_a_graph_without_variables_has_nothing_to_save() -> None:
    with (
        graphmill.Graph().as_default(),
        pytest.raises(errors.InvalidArgumentError, match="No variables to save"),
    ):
        train.Saver()


def test_a_variable_without_value_is_not_saved(tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        graphmill.Variable([0.0], name="empty")
        saver = train.Saver()
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.OpError, match="empty"),
    ):
        saver.save(session, tmp_path / "m")
    assert not list(tmp_path.glob("*.index"))


def test_saver_is_made_from_its_message() -> None:
    with graphmill.Graph().as_default() as graph:
        graphmill.Variable(1.0, name="v")
        saver = train.Saver()
        copy = train.Saver.from_proto(saver.to_proto(), graph=graph)
    assert copy.to_proto() == saver.as_saver_def()
