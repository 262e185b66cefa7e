"""MetaGraphs are imported with variables, collections, queue runners and saver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, train
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
def test_training_goes_on_from_the_files(use_resource: bool, tmp_path: Path) -> None:
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
    message = train.export_meta_graph(tmp_path / "g.meta", build())
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
        threads = train.start_queue_runners(session, coordinator)
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


def test_damaged_collection_and_wrong_file_are_refused(tmp_path: Path) -> None:
    message = train.export_meta_graph(graph=build())
    message.collection_def["variables"].bytes_list.value.append(b"\xff\xff")
    with pytest.raises(errors.InvalidArgumentError, match="'variables' is damaged"):
        train.import_meta_graph(message, graph=graphmill.Graph())
    path = train.write_graph(build(), tmp_path, "graph.pb", as_text=False)
    with pytest.raises(errors.InvalidArgumentError, match="expected a MetaGraphDef"):
        train.import_meta_graph(path, graph=graphmill.Graph())


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
