"""`Saver`: shards, shapes, order, and graphs without variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import errors, proto, train

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("google_crc32c")


def two_variables(use_resource: bool = True) -> tuple[Any, Any, Any]:
    """Return a graph with variables on two devices, and the variables."""
    graph = graphmill.Graph()
    with graph.as_default():
        with graph.device("/cpu:0"):
            a = graphmill.Variable([1.0, 2.0], name="a", use_resource=use_resource)
        b = graphmill.Variable([[3, 4]], name="b", use_resource=use_resource)
    return graph, a, b


def saved(saver: train.Saver, graph: Any, path: Path, **options: Any) -> Any:
    """Save the initial values of the variables, and return the prefix."""
    with graphmill.Session(graph=graph) as session:
        session.run([variable.initializer for variable in graph.variables])
        return saver.save(session, path, **options)


@pytest.mark.parametrize("use_resource", [True, False])
def test_sharded_saver_writes_a_file_for_each_task(use_resource: bool, tmp_path: Path) -> None:
    graph, *_ = two_variables(use_resource)
    with graph.as_default(), graph.device("/job:localhost/task:0"):
        graphmill.Variable(5, name="c", use_resource=use_resource)
    with graph.as_default():
        saver = train.Saver(sharded=True)
    path = saved(saver, graph, tmp_path / "m")
    assert sorted(file.name for file in tmp_path.glob("m.data-*")) == [
        "m.data-00000-of-00002",
        "m.data-00001-of-00002",
    ]
    assert not list(tmp_path.glob("m_temp*"))
    assert saver.as_saver_def().sharded
    with graphmill.Session(graph=graph) as session:
        saver.restore(session, path)
        values = session.run(graph.variables)
    assert [value.tolist() for value in values] == [[1, 2], [[3, 4]], 5]


def test_sharded_checkpoint_of_the_first_format_is_refused() -> None:
    graph, *_ = two_variables()
    with (
        graph.as_default(),
        pytest.raises(errors.InvalidArgumentError, match="cannot be sharded"),
    ):
        train.Saver(sharded=True, write_version=proto.SaverDef.V1)


@pytest.mark.parametrize("use_resource", [True, False])
def test_reshape_gives_values_the_shape_of_their_variables(
    use_resource: bool, tmp_path: Path
) -> None:
    graph, *_ = two_variables(use_resource)
    with graph.as_default():
        path = saved(train.Saver(), graph, tmp_path / "m")
    other = graphmill.Graph()
    with other.as_default():
        a = graphmill.Variable([[0.0], [0.0]], name="a", use_resource=use_resource)
        saver, strict = train.Saver([a], reshape=True), train.Saver([a])
    with graphmill.Session(graph=other) as session:
        saver.restore(session, path)
        assert session.run(a).tolist() == [[1], [2]]
        with pytest.raises(errors.InvalidArgumentError):
            strict.restore(session, path)


def test_sequential_restore_assigns_one_variable_after_the_other() -> None:
    graph, *_ = two_variables()
    with graph.as_default():
        train.Saver(restore_sequentially=True)
    first, second = [node for node in graph.nodes if node.op == "AssignVariableOp"][-2:]
    assert first in second.inputs[1].op.control_inputs


def test_saver_of_no_variables_does_nothing(tmp_path: Path) -> None:
    with graphmill.Graph().as_default() as graph, graphmill.Session() as session:
        saver = train.Saver(allow_empty=True)
        assert saver.save(session, tmp_path / "m") is None
        saver.restore(session, tmp_path / "m")
        again = train.Saver.from_proto(saver.to_proto(), graph=graph)
        assert again.save(session, tmp_path / "m") is None
    assert [file.name for file in tmp_path.iterdir()] == ["m.meta"]


def test_deferred_saver_saves_variables_created_later(tmp_path: Path) -> None:
    with graphmill.Graph().as_default() as graph:
        saver = train.Saver(defer_build=True)
        graphmill.Variable(1.0, name="v")
        with pytest.raises(errors.FailedPreconditionError, match=r"call its method build\(\)"):
            saved(saver, graph, tmp_path / "m")
        saver.build()
        saver.build()
        assert train.list_variables(saved(saver, graph, tmp_path / "m")) == [("v", ())]
        with pytest.raises(errors.InvalidArgumentError, match="defer_build"):
            train.Saver(graph.variables, defer_build=True)


def test_builder_is_refused() -> None:
    graph, *_ = two_variables()
    builder: Any = object()
    with graph.as_default(), pytest.raises(errors.UnimplementedError, match="builder=None"):
        train.Saver(builder=builder)


def test_steps_are_padded_and_paths_are_relative(tmp_path: Path) -> None:
    graph, *_ = two_variables()
    with graph.as_default():
        saver = train.Saver(pad_step_number=True, save_relative_paths=True)
    path = saved(saver, graph, tmp_path / "m", global_step=7, meta_graph_suffix="graph")
    assert path == str(tmp_path / "m-00000007")
    assert 'model_checkpoint_path: "m-00000007"' in (tmp_path / "checkpoint").read_text()
    assert (tmp_path / "m-00000007.graph").exists()
    assert train.latest_checkpoint(tmp_path) == path


def test_step_without_feed_uses_the_file_of_the_saver(tmp_path: Path) -> None:
    graph, *_ = two_variables()
    with graph.as_default():
        saver = train.Saver(filename=str(tmp_path / "own"))
    with graphmill.Session(graph=graph) as session:
        session.run([variable.initializer for variable in graph.variables])
        session.run(saver.as_saver_def().save_tensor_name)
    assert train.checkpoint_exists(tmp_path / "own")


@pytest.mark.parametrize(("name", "message"), [("a/b", "without a folder"), ("m", "is the path")])
def test_state_file_beside_the_checkpoint_has_another_name(
    name: str, message: str, tmp_path: Path
) -> None:
    graph, *_ = two_variables()
    with graph.as_default():
        saver = train.Saver()
    with pytest.raises(errors.InvalidArgumentError, match=message):
        saved(saver, graph, tmp_path / "m", latest_filename=name)


def test_checkpoints_may_be_deleted_by_another_saver(tmp_path: Path) -> None:
    graph, *_ = two_variables()
    with graph.as_default():
        first, second = train.Saver(), train.Saver(max_to_keep=1)
    old = saved(first, graph, tmp_path / "m", global_step=1)
    second.set_last_checkpoints_with_time([(old, 0.0)])
    new = saved(second, graph, tmp_path / "m", global_step=2)
    assert not train.checkpoint_exists(old)
    assert second.last_checkpoints == [new]


def test_checkpoints_of_unknown_age_stay(tmp_path: Path) -> None:
    graph, *_ = two_variables()
    with graph.as_default():
        first, second = train.Saver(), train.Saver(max_to_keep=1)
    old = saved(first, graph, tmp_path / "m", global_step=1)
    second.set_last_checkpoints([old])
    saved(second, graph, tmp_path / "m", global_step=2)
    assert train.checkpoint_exists(old)


def test_number_of_checkpoints_as_second_argument_is_taken_with_a_warning() -> None:
    graph, a, _ = two_variables()
    old_order: Any = ([a], 3, 2.0, "mine")
    with graph.as_default(), pytest.warns(DeprecationWarning, match="second argument of Saver"):
        message = train.Saver(*old_order).as_saver_def()
    assert message.max_to_keep == 3
    assert message.keep_checkpoint_every_n_hours == 2
    assert message.restore_op_name == "mine/restore_all"


def test_saver_of_an_imported_scope_has_its_nodes() -> None:
    graph, *_ = two_variables()
    with graph.as_default():
        message = train.Saver().export_meta_graph()
    with graphmill.Graph().as_default() as target:
        train.import_meta_graph(message, import_scope="s")
        saver = train.Saver.from_proto(message.saver_def, import_scope="s", graph=target)
    assert saver.as_saver_def().restore_op_name == "s/save/restore_all"
