"""`graphmill run --queue-runners` fills the queues of a MetaGraph."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import graphmill
from graphmill import ops, train

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_queue_is_filled_while_the_model_runs(
    graphmill_cli: Callable[..., Any], tmp_path: Path, digits: Path
) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], capacity=2)
        enqueue = ops.data_flow.queue_enqueue_v2(queue, [graph.constant(5.0)])
        train.add_queue_runner(train.QueueRunner.of_queue(queue, [enqueue]), graph)
        ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"], name="dequeue")
    train.export_meta_graph(tmp_path / "m.meta", graph=graph)
    arguments = ("--fetch", "dequeue:0", "--queue-runners", "--json")
    outcome = graphmill_cli("run", str(tmp_path / "m.meta"), *arguments)
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["outputs"]["dequeue:0"]["value"] == 5
    outcome = graphmill_cli("run", str(digits / "digits_frozen.pb"), *arguments)
    assert outcome.code == 3
    assert "has no queue runners" in outcome.err


def test_local_variables_are_initialized(graphmill_cli: Callable[..., Any], tmp_path: Path) -> None:
    """Such as the count of `tf.train.limit_epochs`, which no checkpoint holds."""
    graph = graphmill.Graph()
    with graph.as_default():
        count = graphmill.Variable(5.0, name="count")
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], capacity=2)
        enqueue = ops.data_flow.queue_enqueue_v2(queue, [count.read_value()])
        train.add_queue_runner(train.QueueRunner.of_queue(queue, [enqueue]), graph)
        ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"], name="dequeue")
    meta = train.export_meta_graph(tmp_path / "all.meta", graph=graph)
    variables = meta.collection_def["variables"].bytes_list.value
    meta.collection_def["local_variables"].bytes_list.value.extend(variables)
    for key in ("variables", "trainable_variables"):
        del meta.collection_def[key]
    (tmp_path / "m.meta").write_bytes(meta.SerializeToString())
    arguments = ("--fetch", "dequeue:0", "--queue-runners", "--json", "--timeout", "60")
    outcome = graphmill_cli("run", str(tmp_path / "m.meta"), *arguments)
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["outputs"]["dequeue:0"]["value"] == 5


def test_failed_runner_ends_the_step_that_waits_for_its_queue(
    graphmill_cli: Callable[..., Any], tmp_path: Path
) -> None:
    """A runner of an old graph may have no node that closes its queue."""
    graph = graphmill.Graph()
    with graph.as_default():
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], capacity=2, name="rows")
        failing = ops.array.check_numerics(graph.constant(float("nan")), message="no number")
        enqueue = ops.data_flow.queue_enqueue_v2(queue, [failing], name="fill")
        ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"], name="dequeue")
        message = graphmill.proto.QueueRunnerDef(queue_name="rows", enqueue_op_name=[enqueue.name])
        train.add_queue_runner(train.QueueRunner(queue_runner_def=message), graph)
    train.export_meta_graph(tmp_path / "m.meta", graph=graph)
    arguments = ("--fetch", "dequeue:0", "--queue-runners")
    outcome = graphmill_cli("run", str(tmp_path / "m.meta"), *arguments)
    assert outcome.code == 4, outcome.err
    assert "no number" in outcome.err
    assert "raised in a thread of the queue runner of 'rows', which runs 'fill'" in outcome.err
