"""Steps of a cluster whose processes die, freeze or restart."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, train
from graphmill.testing.timeouts import TIMEOUT, within

pytest.importorskip("grpc")

from tests.plugins.distributed.processes import SILENCE, Task, waiting_graph
from tests.plugins.distributed.server.test_cluster import free_addresses

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.divided

FAR = "/job:worker/replica:0/task:1"


@pytest.fixture(scope="module")
def tasks() -> Iterator[list[Task]]:
    cluster = {"worker": free_addresses(2)}
    made = [Task(cluster, index).launch() for index in range(2)]
    try:
        for task in made:
            task.wait_until_ready()
        yield made
    finally:
        for task in made:
            task.kill()


@pytest.fixture
def session(tasks: list[Task]) -> Iterator[Any]:
    with graphmill.Session(tasks[0].target, graph=waiting_graph()) as made:
        assert made.run("far:0", {"x:0": 2}) == 4
        yield made


class Waiting:
    """A step in a thread that waits at task 1."""

    def __init__(self, session: Any) -> None:
        self.outcome: list[Any] = []
        self._thread = threading.Thread(target=self._run, args=(session,), daemon=True)
        self._thread.start()
        within(lambda: session.run("has_started:0"), "the beginning of the step")

    def _run(self, session: Any) -> None:
        try:
            self.outcome.append(session.run("wait:0", {"x:0": 1}))
        except errors.OpError as error:
            self.outcome.append(error)

    def end(self) -> Any:
        within(self._thread.join, "the end of the step")
        return self.outcome[0]


def new_session(task: Task) -> Any:
    """Return a session after all tasks are available.

    After a master was lost gRPC connects to its address again within a second, not at once.
    """
    end = time.monotonic() + TIMEOUT
    while True:
        made = graphmill.Session(task.target, graph=waiting_graph())
        try:
            found = within(lambda made=made: made.run("far:0", {"x:0": 3}), "a new session's step")
        except errors.UnavailableError:
            made.close()
            if time.monotonic() > end:
                raise
        else:
            assert found == 6
            return made


def assert_names_the_lost_task(error: Any) -> None:
    assert isinstance(error, errors.UnavailableError)
    assert FAR in error.message
    assert "last heartbeat" in error.message


def test_killed_worker_fails_the_step_and_recovers(tasks: list[Task], session: Any) -> None:
    step = Waiting(session)
    tasks[1].kill()
    assert_names_the_lost_task(step.end())
    with pytest.raises(errors.UnavailableError) as caught:  # at once
        within(lambda: session.run("far:0", {"x:0": 1}), "a step on a task that is away")
    assert_names_the_lost_task(caught.value)
    assert session.run("near:0", {"x:0": 1}) == -1  # needs the other task only
    tasks[1].launch().wait_until_ready()
    with pytest.raises((errors.AbortedError, errors.UnavailableError)):
        session.run("far:0", {"x:0": 1})
    new_session(tasks[0]).close()
    with pytest.raises(errors.AbortedError, match=r"was probably restarted|just restarted"):
        session.run("far:0", {"x:0": 1})


def test_a_worker_that_is_killed_between_steps_aborts_the_session(
    tasks: list[Task], session: Any
) -> None:
    tasks[1].restart()
    new_session(tasks[0]).close()
    with pytest.raises(errors.AbortedError):
        session.run("far:0", {"x:0": 1})


def test_close_with_unreachable_worker_takes_bounded_time(tasks: list[Task], session: Any) -> None:
    step = Waiting(session)
    tasks[1].kill()
    assert_names_the_lost_task(step.end())
    within(session.close, "close", 15.0)
    tasks[1].launch().wait_until_ready()
    new_session(tasks[0]).close()


def test_frozen_worker_fails_its_steps_and_recovers(tasks: list[Task], session: Any) -> None:
    step = Waiting(session)
    tasks[1].stop()
    error = step.end()
    assert_names_the_lost_task(error)
    assert f"silent for {SILENCE:g} s" in error.message
    assert session.run("near:0", {"x:0": 1}) == -1
    tasks[1].go_on()
    new_session(tasks[0]).close()
    assert session.run("far:0", {"x:0": np.float32(4)}) == 8  # what was registered is there still
    step = Waiting(session)
    session.run("go_on", {"x:0": 5})
    assert step.end() == 5


def test_frozen_master_fails_client_calls(
    tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHMILL_SILENCE_SECONDS", str(SILENCE))
    session = new_session(tasks[0])
    step = Waiting(session)
    tasks[0].stop()
    error = step.end()
    tasks[0].go_on()
    assert isinstance(error, errors.UnavailableError)
    assert tasks[0].target in error.message
    assert "last heartbeat" in error.message
    new_session(tasks[0]).close()
    session.close()


def test_a_master_that_is_killed_fails_its_clients(tasks: list[Task], session: Any) -> None:
    step = Waiting(session)
    tasks[0].kill()
    assert isinstance(step.end(), errors.UnavailableError)
    within(session.close, "close", 15.0)
    tasks[0].launch().wait_until_ready()
    new_session(tasks[0]).close()
    with new_session(tasks[1]) as other:  # the steps of the dead master hold nothing there
        other.run("go_on", {"x:0": 7})
        assert Waiting(other).end() == 7


def test_training_continues_after_worker_was_killed(tasks: list[Task], tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        train.get_or_create_global_step()
        with graph.device("/job:worker/task:1"):
            v = graphmill.Variable(np.float32(0), name="v")
        step = v.assign_add(np.float32(1))
        advance = train.get_global_step().assign_add(1)
    training = train.MonitoredTrainingSession(
        tasks[0].target,
        checkpoint_dir=tmp_path,
        scaffold=train.Scaffold(graph=graph),
        save_checkpoint_steps=1,
        recovery_wait_secs=0.05,
    )
    with training:
        values = []
        for number in range(6):
            if number == 3:
                tasks[1].restart()
            values.append(training.run([step, advance])[0])
    assert values == [1, 2, 3, 4, 5, 6]


def test_session_starts_once_late_task_is_up() -> None:
    cluster = {"worker": free_addresses(2)}
    first, late = Task(cluster, 0), Task(cluster, 1)
    first.launch().wait_until_ready()
    late.launch()  # which takes as long as it takes
    try:
        new_session(first).close()
        late.wait_until_ready()
    finally:
        for task in (first, late):
            task.kill()


def test_session_names_missing_tasks_unless_filtered() -> None:
    cluster = {"worker": free_addresses(4)}
    first = Task(cluster, 0).launch()
    config = graphmill.ConfigProto(operation_timeout_in_ms=6000)
    graph = waiting_graph()
    try:
        first.wait_until_ready()
        with (
            graphmill.Session(first.target, graph=graph, config=config) as session,
            pytest.raises(errors.DeadlineExceededError) as caught,
        ):
            within(lambda: session.run("near:0", {"x:0": 1}), "the refusal", 15.0)
        config.device_filters.append("/job:worker/task:0")
        config.graph_options.place_pruned_graph = True  # other nodes are on missing tasks
        with graphmill.Session(first.target, graph=graph, config=config) as session:
            assert session.run("near:0", {"x:0": 1}) == -1
    finally:
        first.kill()
    for index in (1, 2, 3):
        assert f"/job:worker/replica:0/task:{index}" in caught.value.message
