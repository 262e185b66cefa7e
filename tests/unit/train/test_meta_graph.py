"""MetaGraphs are imported with variables, collections, queue runners and saver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, proto, train
from graphmill.testing.timeouts import no_leaked_threads

if TYPE_CHECKING:
    from pathlib import Path


def build(use_resource: bool = True, last: int = 1000) -> graphmill.Graph:
    """Return a graph that trains from a queue of the numbers up to `last`."""
    graph = graphmill.Graph()
    with graph.as_default():
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], capacity=3, name="queue")
        number = graphmill.Variable(0.0, False, name="number")
        following = number.assign_add(1.0)
        limit = graphmill.Assert(
            ops.math.less_equal(following, graph.constant(float(last))), [following]
        )
        with graph.control_dependencies([limit]):
            enqueue = ops.data_flow.queue_enqueue_v2(queue, [following], name="enqueue")
        train.add_queue_runner(train.QueueRunner.of_queue(queue, [enqueue]), graph)
        (x,) = ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"], name="dequeue")
        w = graphmill.Variable(1.0, name="w", use_resource=use_resource)
        loss = ops.math.square(ops.math.sub(ops.math.mul(w, x), graph.constant(3.0)), name="loss")
        step = train.AdamOptimizer(0.1).minimize(loss, train.get_or_create_global_step())
        graph.add_to_collection("train_op", step)
        graph.add_to_collection("losses", loss)
        graph.add_to_collection("rate", 0.5)
    return graph


@pytest.mark.parametrize("use_resource", [True, False])
def test_training_continues_from_the_files(use_resource: bool, tmp_path: Path) -> None:
    graph = build(use_resource)
    with graph.as_default(), graphmill.Session(graph=graph) as session:
        saver = train.Saver()
        session.run(graphmill.global_variables_initializer())
        path = saver.save(session, tmp_path / "model")
    imported = graphmill.Graph()
    with imported.as_default():
        restorer = train.import_meta_graph(f"{path}.meta")
    assert restorer is not None
    assert [v.variable_name for v in imported.variables] == [
        v.variable_name for v in graph.variables
    ]
    assert [v.trainable for v in imported.variables] == [v.trainable for v in graph.variables]
    assert imported.get_collection("rate") == [0.5]
    assert imported.get_collection("trainable_variables")[0].static_shape == ()
    (step,), (loss,) = imported.get_collection("train_op"), imported.get_collection("losses")
    with no_leaked_threads(), graphmill.Session(graph=imported) as session:
        restorer.restore(session, path)
        coordinator = train.Coordinator()
        threads = train.start_queue_runners(session, coordinator)
        losses = [session.run([loss, step])[0] for _ in range(3)]
        coordinator.request_stop()
        coordinator.join(threads)
        again = restorer.save(session, tmp_path / "later", 3)
    assert losses[0] == 4.0
    assert train.latest_checkpoint(tmp_path) == again
    assert train.import_meta_graph(f"{again}.meta", graph=graphmill.Graph()) is not None


def test_optimizer_and_saver_can_be_added_to_an_imported_graph(tmp_path: Path) -> None:
    imported = graphmill.Graph()
    message = train.export_meta_graph(tmp_path / "g.meta", graph=build())
    assert train.import_meta_graph(message, graph=imported) is None
    (loss,) = imported.get_collection("losses")
    with imported.as_default(), graphmill.Session(graph=imported) as session:
        train.GradientDescentOptimizer(0.1).minimize(loss)
        saver = train.Saver()
        session.run(graphmill.global_variables_initializer())
        saver.restore(session, saver.save(session, tmp_path / "model"))


def test_failure_in_a_queue_runner_is_reported_by_join() -> None:
    graph = build(last=1)
    with graph.as_default():
        init = graphmill.global_variables_initializer()
    with no_leaked_threads(), graphmill.Session(graph=graph) as session:
        session.run(init)
        coordinator = train.Coordinator()
        threads = train.start_queue_runners(coord=coordinator)
        coordinator.wait_for_stop()
        with pytest.raises(errors.InvalidArgumentError, match="assertion failed"):
            coordinator.join(threads)
        # The runner has closed the queue, so a dequeue ends rather than waits for ever.
        session.run("dequeue:0")
        with pytest.raises((errors.OutOfRangeError, errors.CancelledError)):
            session.run("dequeue:0")


def test_errors_without_coordinator_are_kept() -> None:
    graph = build(last=1)
    with graph.as_default():
        init = graphmill.global_variables_initializer()
    with graphmill.Session(graph=graph) as session:
        session.run(init)
        (runner,) = graph.queue_runners
        for thread in runner.create_threads(session, start=True):
            thread.join()
        assert isinstance(runner.exceptions_raised[0], errors.InvalidArgumentError)


def test_devices_can_be_cleared() -> None:
    graph = graphmill.Graph()
    with graph.as_default(), graph.device("/gpu:3"):
        graph.constant(1.0, name="one")
    message = train.export_meta_graph(graph=graph)
    imported = graphmill.Graph()
    train.import_meta_graph(message, clear_devices=True, graph=imported)
    assert imported.get_operation_by_name("one").device == ""
    assert message.graph_def.node[0].device


@pytest.mark.parametrize("use_resource", [True, False])
def test_a_graph_is_imported_twice_in_scopes(use_resource: bool, tmp_path: Path) -> None:
    graph = build(use_resource)
    with graph.as_default(), graphmill.Session(graph=graph) as session:
        session.run(graphmill.global_variables_initializer())
        path = train.Saver().save(session, tmp_path / "model")
    imported = graphmill.Graph()
    first, second = (
        train.import_meta_graph(f"{path}.meta", import_scope="copy", graph=imported)
        for _ in range(2)
    )
    assert first is not None
    assert second is not None
    assert {node.name.partition("/")[0] for node in imported.nodes} == {"copy", "copy_1"}
    assert [loss.name for loss in imported.get_collection("losses")] == [
        "copy/loss:0",
        "copy_1/loss:0",
    ]
    assert [runner.name for runner in imported.queue_runners] == [
        "copy/queue",
        "copy_1/queue",
    ]
    _, step = imported.get_collection("train_op")
    with graphmill.Session(graph=imported) as session:
        first.restore(session, path)
        second.restore(session, path)
        session.run(step, {"copy_1/dequeue:0": 2.0})
        weights = [session.run(v) for v in imported.variables if v.variable_name.endswith("/w")]
        if not use_resource:  # two handles with the same shared name are one variable
            assert weights == pytest.approx([1.0, 1.1])
        again = second.save(session, tmp_path / "again")
    assert train.load_checkpoint(again).names() == train.load_checkpoint(path).names()


def test_each_imported_loop_is_independent() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        y = graphmill.while_loop(
            lambda v: ops.math.less(v, 100.0), lambda v: [ops.math.mul(v, 2.0)], [x]
        )
        graph.add_to_collection("out", y)
    message = train.export_meta_graph(graph=graph)
    context = proto.WhileContextDef(context_name="while/while_context", pivot_name="while/LoopCond")
    context.values_def.values.append("while/Switch:1")
    context.values_def.external_values["x:0"] = "x:0"
    message.collection_def["while_context"].bytes_list.value.append(context.SerializeToString())
    imported = graphmill.Graph()
    for scope in ("a", "b"):
        train.import_meta_graph(message, import_scope=scope, graph=imported)
    with graphmill.Session(graph=imported) as session:
        values = session.run(imported.get_collection("out"), {"a/x:0": 3.0, "b/x:0": 50.0})
    assert values == [192.0, 100.0]
    moved = proto.WhileContextDef.FromString(imported.get_collection("while_context")[1])
    assert moved.context_name == "b/while/while_context"
    assert moved.values_def.values[:] == ["b/while/Switch:1"]
    assert dict(moved.values_def.external_values) == {"b/x:0": "b/x:0"}


def test_colocated_nodes_stay_together_in_a_scope() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        with graph.colocate_with(x.op), graph.control_dependencies([x.op]):
            graph.constant(1.0, name="y")
    imported = graphmill.Graph()
    train.import_meta_graph(train.export_meta_graph(graph=graph), import_scope="a", graph=imported)
    y = imported.as_graph_def().node[1]
    assert y.input[:] == ["^a/x"]
    assert y.attr["_class"].list.s[:] == [b"loc:@a/x"]


def test_damaged_collection_in_a_scope_is_refused() -> None:
    message = train.export_meta_graph(graph=build())
    message.collection_def["queue_runners"].bytes_list.value[0] = b"\xff"
    with pytest.raises(errors.InvalidArgumentError, match="'queue_runners' is damaged"):
        train.import_meta_graph(message, import_scope="a", graph=graphmill.Graph())


@pytest.mark.parametrize("scope", [5, b"a", ["a"]])
def test_import_scope_that_is_not_a_text_is_refused(scope: object) -> None:
    graph = graphmill.Graph()
    with pytest.raises(errors.InvalidArgumentError, match="expected the name of a scope"):
        train.import_meta_graph(proto.MetaGraphDef(), import_scope=scope, graph=graph)  # type: ignore[arg-type]


def test_damaged_collection_and_wrong_file_are_refused(tmp_path: Path) -> None:
    message = train.export_meta_graph(graph=build())
    message.collection_def["variables"].bytes_list.value.append(b"\xff\xff")
    with pytest.raises(errors.InvalidArgumentError, match="'variables' is damaged"):
        train.import_meta_graph(message, graph=graphmill.Graph())
    path = train.write_graph(build(), tmp_path, "graph.pb", as_text=False)
    with pytest.raises(errors.InvalidArgumentError, match="expected a MetaGraphDef"):
        train.import_meta_graph(path, graph=graphmill.Graph())


def test_cut_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.meta"
    content = train.export_meta_graph(path, graph=build()).SerializeToString()
    path.write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(
        errors.InvalidArgumentError, match=r"model\.meta has \d+ bytes and is truncated"
    ):
        train.import_meta_graph(path, graph=graphmill.Graph())


def test_text_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.meta"
    train.export_meta_graph(path, graph=build(), as_text=True)
    imported = graphmill.Graph()
    train.import_meta_graph(path, graph=imported)
    assert [variable.variable_name for variable in imported.variables][:2] == ["number", "w"]


@pytest.mark.parametrize("as_text", [True, False])
def test_graph_is_written_as_text_or_bytes(as_text: bool, tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        graph.constant(np.float32(2), name="two")
    path = train.write_graph(graph, tmp_path / "new", "g.pbtxt", as_text=as_text)
    with graphmill.Session(graph=path) as session:
        assert session.run("two:0") == 2


def test_collection_of_other_objects_is_refused() -> None:
    graph = graphmill.Graph()
    graph.add_to_collection("mine", object())
    with pytest.raises(errors.InvalidArgumentError, match="'mine' has a object"):
        train.export_meta_graph(graph=graph)


def test_import_does_not_change_the_message() -> None:
    message = proto.MetaGraphDef()
    message.graph_def.node.add(name="n", op="NoOp")
    before = message.SerializeToString(deterministic=True)
    graph = graphmill.Graph()
    train.import_meta_graph(message, graph=graph)
    train.import_meta_graph(message, import_scope="s", graph=graph)
    assert message.SerializeToString(deterministic=True) == before
    assert not message.collection_def


def test_exported_parts_can_be_chosen() -> None:
    with graphmill.Graph().as_default() as graph, graph.device("/cpu:0"):
        graphmill.Variable(1.0, name="v")
        graph.add_to_collection("mine", 7)
        info = proto.MetaGraphDef.MetaInfoDef(meta_graph_version="3", tags=["serve"])
        nodes = proto.GraphDef(node=[proto.NodeDef(name="n", op="NoOp", device="/cpu:0")])
        chosen = train.export_meta_graph(
            meta_info_def=info, graph_def=nodes, collection_list=["mine"], clear_devices=True
        )
        saver = train.Saver()
        by_def = train.export_meta_graph(saver_def=saver.as_saver_def())
        assert by_def == train.export_meta_graph(saver=saver)
        with pytest.raises(errors.InvalidArgumentError, match="either saver or saver_def"):
            train.export_meta_graph(saver_def=saver.as_saver_def(), saver=saver)
    assert chosen.meta_info_def.tags == ["serve"]
    assert [op.name for op in chosen.meta_info_def.stripped_op_list.op] == ["NoOp"]
    assert [(node.name, node.device) for node in chosen.graph_def.node] == [("n", "")]
    assert list(chosen.collection_def) == ["mine"]


def test_stripped_attrs_are_added_again_by_the_import() -> None:
    with graphmill.Graph().as_default() as graph:
        graphmill.functions.matmul([[1.0]], [[2.0]], transpose_b=True, name="y")
    whole = train.export_meta_graph(graph=graph)
    stripped = train.export_meta_graph(graph=graph, strip_default_attrs=True)
    (node,) = (node for node in stripped.graph_def.node if node.name == "y")
    assert sorted(node.attr) == ["T", "transpose_b"]
    assert stripped.meta_info_def.stripped_default_attrs
    with graphmill.Graph().as_default() as target:
        train.import_meta_graph(stripped)
    assert target.as_graph_def() == whole.graph_def


def test_graph_as_second_argument_of_an_export_is_taken_with_a_warning() -> None:
    graph = graphmill.Graph()
    with pytest.warns(DeprecationWarning, match="second argument of export_meta_graph"):
        assert train.export_meta_graph(None, graph) == train.export_meta_graph(graph=graph)


def test_runner_of_a_queue_or_of_a_message() -> None:
    graph = build()
    queue, enqueue = graph.get_tensor_by_name("queue:0"), graph.get_operation_by_name("enqueue")
    with graph.as_default():
        close = ops.data_flow.queue_close_v2(queue, name="mine")
        runner = train.QueueRunner(
            queue, [enqueue], close, None, (errors.OutOfRangeError, errors.CancelledError)
        )
    assert (runner.name, runner.enqueue_ops, runner.close_op) == ("queue", ("enqueue",), "mine")
    again = train.QueueRunner.from_proto(runner.to_proto())
    assert again.queue_closed_exception_types == (errors.OutOfRangeError, errors.CancelledError)
    with pytest.warns(DeprecationWarning, match="first argument of QueueRunner"):
        assert train.QueueRunner(runner.to_proto()).to_proto() == runner.to_proto()


def test_runner_without_its_arguments_is_refused() -> None:
    graph = build()
    queue, enqueue = graph.get_tensor_by_name("queue:0"), graph.get_operation_by_name("enqueue")
    wrong: Any = (ValueError,)
    with pytest.raises(errors.InvalidArgumentError, match="at least one enqueue op"):
        train.QueueRunner(queue)
    with pytest.raises(errors.InvalidArgumentError, match=r"classes of graphmill\.errors"):
        train.QueueRunner(queue, [enqueue], queue_closed_exception_types=wrong)
    with pytest.raises(errors.InvalidArgumentError, match="either queue and enqueue_ops"):
        train.QueueRunner()
