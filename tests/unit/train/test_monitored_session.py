"""`MonitoredSession`: hooks around steps, and a new session after a task was lost."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors, ops, summary, tf_record, train
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.proto.event_pb2 import Event

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("google_crc32c")


class Creator(train.ChiefSessionCreator):
    """A creator that fails at first, and stores its sessions."""

    def __init__(self, *args: Any, failures: Any = (), **named: Any) -> None:
        super().__init__(*args, **named)
        self.failures = list(failures)
        self.made: list[graphmill.Session] = []

    def create_session(self) -> graphmill.Session:
        if self.failures:
            raise self.failures.pop(0)
        self.made.append(super().create_session())
        return self.made[-1]


class Program:
    """A graph that increments `v`; its step fails `failures` times."""

    def __init__(self) -> None:
        self.failures: list[errors.OpError] = []
        self.num_calls = 0
        self.host = graphmill.Host([self])
        self.graph = graphmill.Graph(ops=self.host.ops)
        with self.graph.as_default():
            self.steps = train.get_or_create_global_step()
            self.v = graphmill.Variable(0.0, name="v")
            self.x = self.graph.placeholder("float32", [], name="x")
            may_fail = self.graph.create_op("Mine>MayFail", [self.x])
            with self.graph.control_dependencies([may_fail]):
                add = self.v.assign_add(1.0)
                with self.graph.control_dependencies([add]):
                    self.step = self.steps.assign_add(1)
            self.loss = ops.math.log(self.x, name="loss")

    @graphmill.hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        x, y = ArgDef("x", dtypes.float32), ArgDef("y", dtypes.float32)
        ops.add(OpDef("Mine>MayFail", (x,), (y,), is_stateful=True))

    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        @graphmill.kernel("Mine>MayFail", stateful=True)
        def may_fail(ctx: Any, x: Any) -> Any:
            self.num_calls += 1
            if self.failures:
                raise self.failures.pop(0)
            return x

        kernels.add(may_fail)

    def creator(self, failures: Any = (), **options: Any) -> Creator:
        """A creator whose first sessions fail."""
        named = {k: options.pop(k) for k in ("checkpoint_dir",) if k in options}
        return Creator(self.scaffold(**options), host=self.host, failures=failures, **named)

    def scaffold(self, **options: Any) -> train.Scaffold:
        return train.Scaffold(graph=self.graph, **options)


@pytest.fixture
def program() -> Program:
    return Program()


class Recorder(train.SessionRunHook):
    """Records each call, and requests the given tensors."""

    def __init__(self, asks: Any = None) -> None:
        self.asks = asks
        self.calls: list[Any] = []

    def begin(self) -> None:
        self.calls.append("begin")

    def after_create_session(self, session: Any) -> None:
        self.calls.append("created")

    def before_run(self, run_context: Any) -> Any:
        self.calls.append("before")
        return self.asks

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.calls.append(("after", run_values.results))

    def end(self, session: Any) -> None:
        self.calls.append("end")


def test_hooks_run_around_steps_and_get_requested_values(program: Program) -> None:
    silent, asking = Recorder(), Recorder(train.SessionRunArgs({"x": program.x}))
    creator = program.creator()
    with train.MonitoredSession(creator, [silent, asking]) as session:
        assert session.run(program.step, {program.x: 2.0}) == 1
        assert not session.should_stop()
    assert session.should_stop()
    assert silent.calls == ["begin", "created", "before", ("after", None), "end"]
    assert asking.calls == ["begin", "created", "before", ("after", {"x": 2.0}), "end"]


def test_hooks_may_be_none(program: Program) -> None:
    with train.MonitoredSession(program.creator(), hooks=None) as session:
        assert session.run(program.step, {program.x: 2.0}) == 1
    with train.MonitoredTrainingSession(
        scaffold=program.scaffold(), hooks=None, chief_only_hooks=None, host=program.host
    ) as session:
        assert session.run(program.step, {program.x: 2.0}) == 1


def test_hooks_may_feed_only_unfed_tensors(program: Program) -> None:
    feeding = Recorder(train.SessionRunArgs(feed_dict={program.x: 3.0}))
    creator = program.creator()
    with train.MonitoredSession(creator, [feeding]) as session:
        assert session.run(program.x) == 3
        with pytest.raises(errors.InvalidArgumentError, match="Recorder feeds 'x:0'"):
            session.run(program.x, {program.x: 1.0})


def test_hooks_may_request_options(program: Program) -> None:
    traced = graphmill.RunOptions(trace_level=graphmill.RunOptions.FULL_TRACE)
    seen: list[Any] = []

    class Tracing(Recorder):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            seen.append((run_values.options, run_values.run_metadata))

    hook = Tracing(train.SessionRunArgs(options=traced))
    creator = program.creator()
    metadata = graphmill.RunMetadata()
    with train.MonitoredSession(creator, [hook]) as session:
        run_options = graphmill.RunOptions(timeout_in_ms=60_000)
        session.run(program.step, {program.x: 1.0}, options=run_options, run_metadata=metadata)
    ((options, of_hook),) = seen
    assert (options.trace_level, options.timeout_in_ms) == (3, 60_000)
    assert of_hook.step_stats.dev_stats
    assert metadata == of_hook


@pytest.mark.parametrize("lost", [errors.AbortedError, errors.UnavailableError])
def test_lost_task_restarts_from_last_checkpoint(
    lost: Any, program: Program, tmp_path: Path
) -> None:
    creator = program.creator(checkpoint_dir=tmp_path)
    saver = train.CheckpointSaverHook(tmp_path, save_steps=2, scaffold=creator.scaffold)
    recorder = Recorder()
    with train.MonitoredSession(creator, [saver, recorder]) as session:
        for _ in range(3):
            session.run(program.step, {program.x: 1.0})
        program.failures = [lost("worker 1 is gone")]
        creator.failures = [lost("still away")]
        # Saved at step 2: the third step is lost, and counted again.
        assert session._between_tries.wait(0) is False
        session._recovery_wait_secs = 0
        assert session.run(program.step, {program.x: 1.0}) == 3
        assert session.run(program.v) == 3
    first, second = creator.made
    assert recorder.calls.count("created") == 2
    with pytest.raises(errors.CancelledError):
        first.run(program.v)
    assert second is not first
    assert train.latest_checkpoint(tmp_path) == f"{tmp_path}/model.ckpt-3"


def test_training_restarts_without_checkpoints(program: Program) -> None:
    with train.MonitoredSession(program.creator()) as session:
        session.run(program.step, {program.x: 1.0})
        program.failures = [errors.AbortedError("gone")]
        assert session.run(program.step, {program.x: 1.0}) == 1


def test_recovery_timeout_raises_the_last_error(program: Program) -> None:
    away = [errors.UnavailableError(f"away {n}") for n in range(3)]
    creator = program.creator(away)
    with pytest.raises(errors.UnavailableError, match="away 0"):
        train.MonitoredSession(creator, max_recovery_secs=0, recovery_wait_secs=0)


def test_other_errors_are_raised_and_the_session_continues(program: Program) -> None:
    recorder = Recorder()
    with train.MonitoredSession(program.creator(), [recorder]) as session:
        program.failures = [errors.DataLossError("spoilt")]
        with pytest.raises(errors.DataLossError, match="spoilt"):
            session.run(program.step, {program.x: 1.0})
        assert session.run(program.step, {program.x: 1.0}) == 1
    assert recorder.calls[-1] == "end"


def test_an_error_that_leaves_the_block_does_not_call_end(program: Program) -> None:
    recorder = Recorder()
    with (
        pytest.raises(ZeroDivisionError),
        train.MonitoredSession(program.creator(), [recorder]) as session,
    ):
        raise ZeroDivisionError
    assert "end" not in recorder.calls
    with pytest.raises(errors.FailedPreconditionError, match="closed"):
        session.run(program.v)


def test_uninitialized_variables_are_named(program: Program) -> None:
    with program.graph.as_default():
        only_v = graphmill.variables_initializer([program.v], name="only_v")
    creator = program.creator(init_op=only_v)
    with pytest.raises(errors.FailedPreconditionError, match="without a value: global_step"):
        creator.create_session()


def test_init_fn_is_called_after_init_op_unless_there_is_a_checkpoint(
    program: Program, tmp_path: Path
) -> None:
    with program.graph.as_default():
        assigned = program.v.assign(7.0)
    calls: list[tuple[train.Scaffold, float]] = []

    def init_fn(scaffold: train.Scaffold, session: graphmill.Session) -> None:
        calls.append((scaffold, float(session.run(program.v))))
        session.run(assigned)

    creator = program.creator(init_fn=init_fn, checkpoint_dir=tmp_path)
    with creator.create_session() as session:
        assert calls == [(creator.scaffold, 0.0)]
        assert session.run(program.v) == 7
        assert creator.scaffold.saver is not None
        creator.scaffold.saver.save(session, tmp_path / "model", 1)
    with creator.create_session() as session:
        assert len(calls) == 1
        assert session.run(program.v) == 7


def test_init_fn_must_be_a_function(program: Program) -> None:
    wrong: Any = program.step.op
    with pytest.raises(errors.InvalidArgumentError, match=r"init_fn=.* local_init_op"):
        program.scaffold(init_fn=wrong)


def test_local_init_runs_in_each_session(program: Program) -> None:
    with program.graph.as_default():
        local = program.v.assign(7.0).op
    with train.MonitoredSession(program.creator(local_init_op=local)) as session:
        assert session.run(program.v) == 7
        program.failures = [errors.AbortedError("gone")]
        session.run(program.step, {program.x: 1.0})
        assert session.run(program.v) == 8


def test_worker_waits_for_chief_and_names_missing_variables(program: Program) -> None:
    creator = train.WorkerSessionCreator(program.scaffold(), max_wait_secs=0, recovery_wait_secs=0)
    with pytest.raises(errors.DeadlineExceededError, match="no value: global_step, v"):
        creator.create_session()


@pytest.mark.parametrize(("how", "steps"), [({"num_steps": 3}, 3), ({"last_step": 2}, 2)])
def test_it_stops_at_a_step(how: Any, steps: int, program: Program) -> None:
    with train.MonitoredSession(program.creator(), [train.StopAtStepHook(**how)]) as s:
        while not s.should_stop():
            s.run(program.step, {program.x: 1.0})
    assert program.num_calls == steps


@pytest.mark.parametrize("how", [{}, {"num_steps": 1, "last_step": 1}])
def test_one_way_to_stop_is_needed(how: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="exactly one"):
        train.StopAtStepHook(**how)


def test_hooks_that_count_need_a_global_step() -> None:
    graph = graphmill.Graph()
    creator = train.ChiefSessionCreator(train.Scaffold(graph=graph))
    with pytest.raises(errors.FailedPreconditionError, match="StopAtStepHook needs a global step"):
        train.MonitoredSession(creator, [train.StopAtStepHook(1)])


def test_nan_is_an_error_or_the_end(program: Program) -> None:
    failing = train.NanTensorHook(program.loss)
    with train.MonitoredSession(program.creator(), [failing]) as session:
        session.run(program.step, {program.x: 1.0})
        with pytest.raises(train.NanLossDuringTrainingError, match="loss:0"):
            session.run(program.step, {program.x: np.nan})
    ending = train.NanTensorHook(program.loss, fail_on_nan_loss=False)
    with train.MonitoredSession(program.creator(), [ending]) as session:
        session.run(program.step, {program.x: np.nan})
        assert session.should_stop()


def test_values_are_logged_every_so_often_and_at_the_end(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    hook = train.LoggingTensorHook({"v": program.v}, every_n_iter=2, at_end=True)
    with (
        caplog.at_level(logging.INFO, logger="graphmill.train.hooks"),
        train.MonitoredSession(program.creator(), [hook]) as session,
    ):
        for _ in range(4):
            session.run(program.x, {program.x: 1.0})
    lines = [r.message for r in caplog.records if r.name == "graphmill.train.hooks"]
    assert lines == ["v = 0.0", "v = 0.0", "v = 0.0"]


def test_timer_counts_seconds_or_steps() -> None:
    now = [0.0]
    timer = train.SecondOrStepTimer(every_secs=10, clock=lambda: now[0])
    assert timer.is_due(1)
    timer.done_at(1)
    assert not timer.is_due(2)
    now[0] = 10.0
    assert timer.is_due(2)
    assert not timer.is_due(1)
    with pytest.raises(errors.InvalidArgumentError, match="exactly one"):
        train.SecondOrStepTimer()


def test_the_training_session_saves_for_the_chief(program: Program, tmp_path: Path) -> None:
    options = {"checkpoint_dir": tmp_path, "save_checkpoint_steps": 1, "recovery_wait_secs": 0}
    with train.MonitoredTrainingSession(
        scaffold=program.scaffold(), host=program.host, **options
    ) as session:
        session.run(program.step, {program.x: 1.0})
    assert train.latest_checkpoint(tmp_path) == f"{tmp_path}/model.ckpt-1"
    with train.MonitoredTrainingSession(
        scaffold=program.scaffold(), host=program.host, **options
    ) as session:
        assert session.run(program.step, {program.x: 1.0}) == 2


def test_the_training_session_of_a_worker_sets_nothing(program: Program) -> None:
    with pytest.raises(errors.DeadlineExceededError, match="check that the chief is running"):
        train.MonitoredTrainingSession(
            is_chief=False,
            scaffold=program.scaffold(),
            max_wait_secs=0,
            recovery_wait_secs=0,
            host=program.host,
        )


def test_summaries_are_written_every_so_many_steps(program: Program, tmp_path: Path) -> None:
    with program.graph.as_default():
        summary.scalar("v", program.v)
    hook = train.SummarySaverHook(save_steps=2, output_dir=tmp_path)
    with train.MonitoredSession(program.creator(), [hook]) as session:
        for _ in range(5):
            session.run(program.step, {program.x: 1.0})
    (path,) = tmp_path.iterdir()
    events = [Event.FromString(record) for record in tf_record.tf_record_iterator(path)]
    assert [event.step for event in events if event.summary.value] == [1, 3, 5]


def test_hook_without_summaries_suggests_how_to_add_one(program: Program, tmp_path: Path) -> None:
    hook = train.SummarySaverHook(save_steps=2, output_dir=tmp_path)
    with (
        pytest.raises(errors.FailedPreconditionError, match="has nothing to write"),
        train.MonitoredSession(program.creator(), [hook]),
    ):
        pass
    with pytest.raises(errors.InvalidArgumentError, match="output_dir and summary_writer"):
        train.SummarySaverHook(save_steps=2)


def with_local_variable(folder: Path) -> str:
    """Write a MetaGraph whose variable `count` is local, as `tf.train.limit_epochs` makes one."""
    graph = graphmill.Graph()
    with graph.as_default():
        train.get_or_create_global_step()
        count = graphmill.Variable(5.0, name="count")
        ops.array.identity(count.assign_add(1.0), name="more")
        graphmill.functions.add_to_collection(
            "table_initializer", ops.control_flow.no_op(name="fill_table")
        )
    meta = train.export_meta_graph(folder / "all.meta", graph=graph)
    for key in ("variables", "trainable_variables"):
        values = meta.collection_def[key].bytes_list.value
        kept = [value for value in values if b"count" not in value]
        local = [value for value in values if b"count" in value]
        values[:] = kept
    meta.collection_def["local_variables"].bytes_list.value.extend(local)
    path = folder / "local.meta"
    path.write_bytes(meta.SerializeToString())
    return str(path)


def test_local_variables_and_tables_of_an_imported_graph_are_initialized(tmp_path: Path) -> None:
    graph = graphmill.Graph()
    train.import_meta_graph(with_local_variable(tmp_path), graph=graph)
    assert [each.name for each in graph.get_collection("local_variables")] == ["count:0"]
    with graph.as_default():
        session = train.MonitoredTrainingSession(log_step_count_steps=None)
    with session:
        assert session.run("more:0") == 6
    init = graph.get_operation_by_name("local_init")
    assert "fill_table" in {node.name for node in init.control_inputs}


def test_scaffold_reports_what_is_not_ready() -> None:
    with graphmill.Graph().as_default() as graph, graphmill.Session() as session:
        v = graphmill.Variable(1.0, name="v")
        reports = graph.constant([b"a", b"b"])
        ready = train.Scaffold(ready_op=reports)
        early = train.Scaffold(ready_for_local_init_op=reports)
        nothing = train.Scaffold(ready_op=graph.constant(np.empty(0, object), "string"))
        for scaffold in (ready, early):
            scaffold.finalize()
            with pytest.raises(errors.FailedPreconditionError, match="without a value: a, b"):
                scaffold.initialize(session, None)
        assert nothing.finalize() is nothing
        nothing.initialize(session, None)
        assert session.run(v) == 1


def test_local_initialization_is_fed() -> None:
    with graphmill.Graph().as_default() as graph, graphmill.Session() as session:
        fed = graph.placeholder("float32", [])
        v = graphmill.Variable(1.0, name="v")
        scaffold = train.Scaffold(local_init_op=v.assign(fed).op, local_init_feed_dict={fed: 7.0})
        scaffold.finalize().initialize(session, None)
        assert session.run(v) == 7


def test_scaffold_copies_what_is_not_given() -> None:
    with graphmill.Graph().as_default() as graph:
        graphmill.Variable(1.0, name="v")
        first, second = graphmill.group(name="first"), graphmill.group(name="second")
        source = train.Scaffold(first, saver=train.Saver(), local_init_op=second)
    copied = train.Scaffold(second, copy_from_scaffold=source)
    assert copied.graph is graph
    assert copied.saver is source.saver
    assert (copied.init_op, copied.local_init_op) == (second, second)
    wrong: Any = object()
    with pytest.raises(errors.InvalidArgumentError, match="expected a Scaffold"):
        train.Scaffold(copy_from_scaffold=wrong)


def test_arguments_of_a_scaffold_at_old_positions_are_taken_with_a_warning() -> None:
    with graphmill.Graph().as_default():
        graphmill.Variable(1.0, name="v")
        local, saver = graphmill.group(name="local"), train.Saver()
        with pytest.warns(DeprecationWarning, match="argument of Scaffold") as caught:
            scaffold = train.Scaffold(None, None, None, local, saver)
    assert len(caught) == 2
    assert scaffold.local_init_op is local
    assert scaffold.saver is saver


def test_chief_restores_a_given_checkpoint(tmp_path: Path) -> None:
    with graphmill.Graph().as_default(), graphmill.Session() as session:
        v = graphmill.Variable(1.0, name="v")
        saver = train.Saver()
        session.run(v.assign(5.0))
        path = saver.save(session, tmp_path / "old" / "m")
        creator = train.ChiefSessionCreator(checkpoint_filename_with_path=path)
        with creator.create_session() as restored:
            assert restored.run(v) == 5
        with pytest.raises(errors.InvalidArgumentError, match="either checkpoint_dir or"):
            train.ChiefSessionCreator(checkpoint_dir=tmp_path, checkpoint_filename_with_path=path)


def test_summaries_of_a_scaffold_are_written(tmp_path: Path) -> None:
    with graphmill.Graph().as_default():
        step = train.get_or_create_global_step().assign_add(1)
        chosen = graphmill.summary.scalar("chosen", 2.0)
        graphmill.summary.scalar("other", 3.0)
        scaffold = train.Scaffold(summary_op=chosen)
        with train.MonitoredTrainingSession(
            scaffold=scaffold, summary_dir=tmp_path, save_summaries_steps=1
        ) as session:
            session.run(step)
        with pytest.raises(errors.InvalidArgumentError, match="either scaffold or summary_op"):
            train.SummarySaverHook(1, output_dir=tmp_path, scaffold=scaffold, summary_op=chosen)
        old_order: Any = (1, None, tmp_path, None, chosen)
        with pytest.warns(DeprecationWarning, match="fifth argument of SummarySaverHook"):
            train.SummarySaverHook(*old_order)
    (file,) = tmp_path.glob("events.*")
    tags = {v.tag for event in train.summary_iterator(file) for v in event.summary.value}
    assert "chosen" in tags
    assert "other" not in tags
