"""Iterators in sessions: threads, waiting, cancellation, clean-up."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, proto
from graphmill.testing.timeouts import no_leaked_threads

INT = {"output_types": ["int64"], "output_shapes": [[]]}


def const(value: Any, dtype: Any = np.int64) -> Any:
    return ops.array.const(
        value=np.array(value, dtype),
        dtype=graphmill.as_dtype("string" if dtype is object else dtype),
    )


def add_function(graph: graphmill.Graph, text: str) -> None:
    from google.protobuf import text_format

    graph.library.add(text_format.Parse(text, proto.FunctionDef()))


def numbers(count: int) -> Any:
    return ops.dataset.range_dataset(const(0), const(count), const(1), **INT)


def iterator_of(dataset: Any) -> tuple[Any, Any, Any]:
    handle = ops.dataset.iterator_v2(shared_name="", container="", **INT)
    start = ops.dataset.make_iterator(dataset, handle)
    return handle, start, ops.dataset.iterator_get_next(handle, **INT)[0]


def taken(session: graphmill.Session, value: Any) -> list[int]:
    found = []
    while True:
        try:
            found.append(int(session.run(value)))
        except errors.OutOfRangeError:
            return found


def pool_config(threads: int) -> Any:
    return proto.ConfigProto(use_per_session_threads=True, inter_op_parallelism_threads=threads)


def test_dataset_graph_may_hold_a_dead_generator_handle() -> None:
    """A serialized dataset may hold the handle of a generator that no longer exists (clause S3)."""
    message = proto.TensorProto(dtype=graphmill.as_dtype("resource").enum)  # type: ignore[arg-type]
    message.resource_handle_val.add(name="SeedGenerator_0", container="localhost")
    graph = graphmill.Graph()
    with graph.as_default():
        handle = ops.array.const(value=message, dtype=graphmill.as_dtype("resource"))
        shuffled = ops.dataset.shuffle_dataset_v3(
            numbers(20), const(5), const(7), const(8), handle, **INT
        )
        _, start, value = iterator_of(shuffled)
    with graphmill.Session(graph=graph) as session:
        session.run(start)
        found = taken(session, value)
    assert found != sorted(found) == list(range(20))


@pytest.mark.parametrize("threads", [-1, 1, 4])
def test_prefetch_gives_all_elements_in_order(threads: int) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        inner = ops.dataset.prefetch_dataset(numbers(50), const(3), **INT)
        outer = ops.dataset.prefetch_dataset(inner, const(2), **INT)
        _, start, value = iterator_of(outer)
    with graphmill.Session(graph=graph, config=pool_config(threads)) as session:
        session.run(start)
        assert taken(session, value) == list(range(50))
        session.run(start)
        assert int(session.run(value)) == 0


def test_a_file_is_prefetched_and_the_end_repeats(tmp_path: Any) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"{number}\n" for number in range(20)))
    graph = graphmill.Graph()
    spec = {"output_types": ["string"], "output_shapes": [[]]}
    with graph.as_default():
        lines = ops.dataset.text_line_dataset(
            const(str(path).encode(), object), const(b"", object), const(0)
        )
        ahead = ops.dataset.prefetch_dataset(lines, const(4), **spec)
        handle = ops.dataset.iterator_v2(shared_name="", container="", **spec)
        start = ops.dataset.make_iterator(ahead, handle)
        value = ops.dataset.iterator_get_next(handle, **spec)[0]
    with graphmill.Session(graph=graph, config=pool_config(2)) as session:
        session.run(start)
        assert taken(session, value) == list(range(20))
        with pytest.raises(errors.OutOfRangeError, match="End of sequence"):
            session.run(value)


@pytest.mark.parametrize("buffer", [0, 2])
@pytest.mark.parametrize("threads", [-1, 1])
def test_a_step_that_waits_for_an_element_is_cancelled(threads: int, buffer: int) -> None:
    """A step that waits for an element from an empty queue holds no thread and can be cancelled."""
    graph = graphmill.Graph()
    with graph.as_default():
        queue = ops.data_flow.fifo_queue_v2(component_types=["int64"], shared_name="empty")
        del queue
        add_function(graph, _DEQUEUE)
        element = ops.dataset.map_dataset(
            numbers(3), [], f="dequeue", output_types=["int64"], output_shapes=[[]]
        )
        ahead = ops.dataset.prefetch_dataset(element, const(buffer), **INT)
        _, start, value = iterator_of(ahead)
    session = graphmill.Session(graph=graph, config=pool_config(threads))
    session.run(start)
    with pytest.raises(errors.DeadlineExceededError):
        session.run(value, options=proto.RunOptions(timeout_in_ms=50))
    session.close()


def test_closing_a_session_leaves_no_thread() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        endless = ops.dataset.repeat_dataset(numbers(3), const(-1), **INT)
        _, start, value = iterator_of(ops.dataset.prefetch_dataset(endless, const(8), **INT))
    with no_leaked_threads(), graphmill.Session(graph=graph, config=pool_config(2)) as session:
        session.run(start)
        assert int(session.run(value)) == 0


def test_unreferenced_iterator_is_freed() -> None:
    from graphmill_plugins.kernels.dataset.iterators.ops import IteratorResource

    def alive() -> int:
        gc.collect()
        return sum(type(item) is IteratorResource for item in gc.get_objects())

    before = alive()
    graph = graphmill.Graph()
    with graph.as_default():
        handle = ops.dataset.anonymous_iterator_v3(**INT)
        start = ops.dataset.make_iterator(numbers(3), handle)
        with graph.control_dependencies([start]):
            value = ops.dataset.iterator_get_next(handle, **INT)[0]
    with graphmill.Session(graph=graph) as session:
        assert [int(session.run(value)) for _ in range(3)] == [0, 0, 0]
        assert alive() <= before


def test_a_generator_counts_until_its_function_ends_it() -> None:
    """A generator dataset counts until its function ends it; `finalize` reads the counter."""
    graph = graphmill.Graph()
    with graph.as_default():
        for text in _GENERATOR:
            add_function(graph, text)
        functions = {"init_func": "init", "next_func": "advance", "finalize_func": "last"}
        made = ops.dataset.generator_dataset([const(4)], [], [], **functions, **INT)
        _, start, value = iterator_of(made)
    with graphmill.Session(graph=graph) as session:
        session.run(start)
        assert taken(session, value) == [4, 5, 6]


_GENERATOR = (
    """
signature {
  name: "init"
  input_arg { name: "n" type: DT_INT64 }
  output_arg { name: "v" type: DT_RESOURCE }
  is_stateful: true
}
node_def {
  name: "c" op: "VarHandleOp"
  attr { key: "dtype" value { type: DT_INT64 } }
  attr { key: "shape" value { shape { } } }
  attr { key: "shared_name" value { s: "counter" } }
}
node_def {
  name: "a" op: "AssignVariableOp" input: "c:resource:0" input: "n"
  attr { key: "dtype" value { type: DT_INT64 } }
}
node_def {
  name: "i" op: "Identity" input: "c:resource:0" input: "^a"
  attr { key: "T" value { type: DT_RESOURCE } }
}
ret { key: "v" value: "i:output:0" }
""",
    """
signature {
  name: "advance"
  input_arg { name: "v" type: DT_RESOURCE }
  output_arg { name: "y" type: DT_INT64 }
  is_stateful: true
}
node_def {
  name: "c" op: "ResourceCountUpTo" input: "v"
  attr { key: "T" value { type: DT_INT64 } }
  attr { key: "limit" value { i: 7 } }
}
ret { key: "y" value: "c:output:0" }
""",
    """
signature {
  name: "last"
  input_arg { name: "v" type: DT_RESOURCE }
  output_arg { name: "y" type: DT_INT64 }
  is_stateful: true
}
node_def {
  name: "r" op: "ReadVariableOp" input: "v"
  attr { key: "dtype" value { type: DT_INT64 } }
}
ret { key: "y" value: "r:value:0" }
""",
)

_DEQUEUE = """
signature {
  name: "dequeue"
  input_arg { name: "x" type: DT_INT64 }
  output_arg { name: "y" type: DT_INT64 }
  is_stateful: true
}
node_def {
  name: "q" op: "FIFOQueueV2"
  attr { key: "component_types" value { list { type: DT_INT64 } } }
  attr { key: "shapes" value { list { } } }
  attr { key: "capacity" value { i: -1 } }
  attr { key: "container" value { s: "" } }
  attr { key: "shared_name" value { s: "empty" } }
}
node_def {
  name: "d" op: "QueueDequeueV2" input: "q:handle:0"
  attr { key: "component_types" value { list { type: DT_INT64 } } }
  attr { key: "timeout_ms" value { i: -1 } }
}
ret { key: "y" value: "d:components:0" }
"""
