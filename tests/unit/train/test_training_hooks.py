"""Hooks that count, show progress, feed, wait and listen; and the end of the input."""

from __future__ import annotations

import io
import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, summary, tf_record, train
from graphmill.data import Dataset, make_one_shot_iterator
from graphmill.proto import MetaGraphDef
from graphmill.proto.event_pb2 import Event

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("google_crc32c")


class Clock:
    """A clock that advances by a second whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class Program:
    """A graph whose step increments the global step."""

    def __init__(self) -> None:
        self.graph = graphmill.Graph()
        with self.graph.as_default():
            self.steps = train.get_or_create_global_step()
            self.x = self.graph.constant(1.5, name="x")
            self.step = self.steps.assign_add(1)

    def run(self, hooks: Any, count: int, fetch: Any = None) -> train.MonitoredSession:
        with self.graph.as_default():
            session = train.MonitoredSession(hooks=hooks)
        with session:
            for _ in range(count):
                session.run(self.step if fetch is None else fetch)
        return session


@pytest.fixture
def program() -> Program:
    return Program()


def events_of(folder: Path) -> list[Event]:
    return [
        Event.FromString(record)
        for path in sorted(folder.glob("events*"))
        for record in tf_record.tf_record_iterator(path)
    ]


def test_step_counter_logs_and_writes_the_rate(
    program: Program, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hook = train.StepCounterHook(every_n_steps=2, output_dir=tmp_path, clock=Clock())
    with caplog.at_level(logging.INFO, logger="graphmill"):
        program.run([hook], 5)
    rates = [record.message for record in caplog.records if "/sec" in record.message]
    assert rates == ["global_step/sec: 1", "global_step/sec: 1"]
    written = [event for event in events_of(tmp_path) if event.summary.value]
    assert [event.step for event in written] == [3, 5]
    assert written[0].summary.value[0].tag == "global_step/sec"


def test_hooks_of_a_folder_write_one_event_file(program: Program, tmp_path: Path) -> None:
    """The order is that of TensorFlow's file."""
    with program.graph.as_default():
        summary.scalar("x", program.x)
        hooks: list[train.SessionRunHook] = [
            train.StepCounterHook(2, output_dir=tmp_path, clock=Clock()),
            train.SummarySaverHook(2, output_dir=tmp_path),
            train.CheckpointSaverHook(tmp_path, save_steps=2, saver=train.Saver()),
        ]
    program.run(hooks, 3)
    assert len(list(tmp_path.glob("events*"))) == 1
    found = [(event.step, str(event.WhichOneof("what"))) for event in events_of(tmp_path)]
    begin = [(0, kind) for kind in ("file_version", *2 * ("graph_def", "meta_graph_def"))]
    assert found == [
        *begin,
        (0, "session_log"),  # the first checkpoint
        (1, "session_log"),  # the start
        (1, "summary"),
        (2, "session_log"),
        (3, "summary"),
        (3, "summary"),
        (3, "session_log"),
    ]
    *_, exported = (event for event in events_of(tmp_path) if event.meta_graph_def)
    assert MetaGraphDef.FromString(exported.meta_graph_def).HasField("saver_def")
    logs = [event.session_log for event in events_of(tmp_path) if event.HasField("session_log")]
    assert [log.status for log in logs] == [3, 1, 3, 3]
    assert logs[0].checkpoint_path == str(tmp_path / "model.ckpt")


def test_step_counter_warns_once_if_the_global_step_does_not_change(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="graphmill"):
        program.run([train.StepCounterHook()], 4, fetch=program.x)
    assert [r.message for r in caplog.records if "global step is still 0" in r.message]
    assert len(caplog.records) == 1


def test_step_counter_begins_anew_in_a_new_session(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    hook = train.StepCounterHook(every_n_steps=2, clock=Clock())
    with caplog.at_level(logging.INFO, logger="graphmill"):
        program.run([hook], 1)
        program.run([hook], 1)  # from the same step, as after a recovery
    assert [r.message for r in caplog.records if r.name.startswith("graphmill.train")] == []


def test_step_counter_takes_one_place_to_write_to(tmp_path: Path) -> None:
    with (
        summary.FileWriter(tmp_path) as writer,
        pytest.raises(errors.InvalidArgumentError, match="not both"),
    ):
        train.StepCounterHook(output_dir=tmp_path, summary_writer=writer)


def test_progress_bar_writes_lines(program: Program) -> None:
    stream = io.StringIO()
    hook = train.ProgressBarHook(4, {"x": program.x}, every_secs=0, stream=stream, clock=Clock())
    program.run([hook], 2)
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("step 1/4  25%  ")
    assert "steps/s" in lines[0]
    assert lines[0].endswith("s left  x = 1.5")
    assert lines[-1].startswith("step 2/4  50%")


def test_progress_bar_rewrites_its_line_on_a_terminal(program: Program) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    program.run([train.ProgressBarHook(stream=stream, every_secs=0)], 3)
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().count("\rstep ") == 4


def test_progress_bar_requires_names() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="dict from names"):
        train.ProgressBarHook(tensors=["x"])  # type: ignore[arg-type]


def test_functions_may_feed_steps_and_final_ops_run_at_the_end(program: Program) -> None:
    with program.graph.as_default():
        fed = program.graph.placeholder("float32", [], name="fed")
        doubled = fed * 2.0
    numbers = iter([1.0, 2.0])
    final = train.FinalOpsHook({"steps": program.steps, "y": doubled}, {fed: 5.0})
    hook = train.FeedFnHook(lambda: {fed: next(numbers)})
    assert final.final_ops_values is None
    program.run([hook, final], 2, fetch=[program.step, doubled])
    assert final.final_ops_values == {"steps": 2, "y": 10.0}


def test_worker_waits_for_the_global_step(program: Program) -> None:
    """Each look at the global step is a step of the chief."""
    looks = []

    class Context:
        class session:
            @staticmethod
            def run(fetch: Any) -> int:
                del fetch
                looks.append(len(looks))
                return len(looks)

    hook = train.GlobalStepWaiterHook(3, poll_secs=0)
    with program.graph.as_default():
        hook.begin()
    hook.before_run(Context)  # type: ignore[arg-type]
    hook.before_run(Context)  # type: ignore[arg-type]
    assert len(looks) == 3


def test_listeners_are_called_around_checkpoints_and_may_stop(
    program: Program, tmp_path: Path
) -> None:
    calls: list[Any] = []

    class Listener(train.CheckpointSaverListener):
        def begin(self) -> None:
            calls.append("begin")

        def before_save(self, session: Any, global_step_value: int) -> None:
            calls.append(("before", global_step_value, train.latest_checkpoint(tmp_path)))

        def after_save(self, session: Any, global_step_value: int) -> bool:
            calls.append(("after", global_step_value))
            return global_step_value >= 2

        def end(self, session: Any, global_step_value: int) -> None:
            calls.append(("end", global_step_value))

    with program.graph.as_default():
        hook = train.CheckpointSaverHook(
            tmp_path, save_steps=1, saver=train.Saver(), listeners=[Listener()]
        )
        session = train.MonitoredSession(hooks=[hook])
    with session:
        while not session.should_stop():
            session.run(program.step)
    assert calls[:3] == ["begin", ("before", 0, None), ("after", 0)]
    assert calls[-1] == ("end", 2)
    assert (tmp_path / "graph.pbtxt").exists()
    assert (tmp_path / "model.ckpt-2.meta").exists()


def test_checkpoints_may_be_written_without_the_graph(program: Program, tmp_path: Path) -> None:
    with program.graph.as_default():
        hook = train.CheckpointSaverHook(
            tmp_path, save_steps=1, saver=train.Saver(), save_graph_def=False
        )
    program.run([hook], 1)
    assert not list(tmp_path.glob("*.meta"))
    assert not (tmp_path / "graph.pbtxt").exists()


def test_end_of_the_input_ends_training_well(program: Program) -> None:
    with program.graph.as_default():
        number = make_one_shot_iterator(Dataset.range(3)).get_next()
        with program.graph.control_dependencies([number]):
            step = program.steps.assign_add(1)
    final = train.FinalOpsHook(program.steps)
    program.run([final], 10, fetch=step)
    assert final.final_ops_values == 3


def test_hook_may_take_the_coordinator(program: Program) -> None:
    seen = []

    class Hook(train.SessionRunHook):
        def after_create_session(self, session: Any, coord: Any = None) -> None:
            seen.append(coord)

    program.run([Hook()], 1)
    assert isinstance(seen[0], train.Coordinator)
    assert seen[0].joined


def test_training_session_counts_steps_and_writes_summaries(
    program: Program, tmp_path: Path
) -> None:
    with program.graph.as_default():
        summary.scalar("mean", program.x)
        session = train.MonitoredTrainingSession(
            checkpoint_dir=tmp_path / "saved",
            save_summaries_steps=2,
            log_step_count_steps=1,
            summary_dir=tmp_path / "logs",
            hooks=[train.StopAtStepHook(3)],
        )
    with session:
        while not session.should_stop():
            session.run(program.step)
    tags = {value.tag for event in events_of(tmp_path / "logs") for value in event.summary.value}
    assert tags == {"mean", "global_step/sec"}
    assert train.latest_checkpoint(tmp_path / "saved").endswith("-3")  # type: ignore[union-attr]


class QueueProgram(Program):
    """A graph whose step reads from a queue that a queue runner fills."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        with self.graph.as_default():
            queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], capacity=3)
            checked = ops.array.check_numerics(value, message="bad input")
            add = ops.data_flow.queue_enqueue_v2(queue, [checked])
            train.add_queue_runner(train.QueueRunner.of_queue(queue, [add]))
            (self.element,) = ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"])


def test_queue_runners_run_as_long_as_the_session() -> None:
    program = QueueProgram(np.float32(2.0))
    with program.graph.as_default():
        session = train.MonitoredSession()
    with session:
        assert [session.run(program.element) for _ in range(5)] == [2.0] * 5
    assert session.should_stop()


def test_error_of_a_queue_runner_is_that_of_the_step() -> None:
    program = QueueProgram(np.float32(np.nan))
    with pytest.raises(errors.InvalidArgumentError, match="bad input"):
        program.run([], 3, fetch=program.element)
