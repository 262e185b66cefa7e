"""Collectives whose members are in sessions of their own, one for each task."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.testing.timeouts import within

pytest.importorskip("grpc")

from tests.plugins.distributed.processes import Task
from tests.plugins.distributed.server.test_cluster import free_addresses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@contextmanager
def servers(count: int, num_cpus: int = 1, **settings: Any) -> Iterator[list[graphmill.Server]]:
    """Run the servers of a cluster."""
    config = graphmill.ConfigProto(device_count={"CPU": num_cpus})
    for name, value in settings.items():
        setattr(config.experimental, name, value)
    tasks = {"worker": free_addresses(count)}
    with ExitStack() as stack:
        yield [
            stack.enter_context(graphmill.Server(tasks, "worker", number, config=config))
            for number in range(count)
        ]


def common(size: int, **changes: Any) -> dict[str, Any]:
    return {"group_size": size, "group_key": 1, "instance_key": 2, "timeout_seconds": 20} | changes


def add(value: Any, size: int, **changes: Any) -> Any:
    return ops.distributed.collective_reduce(
        value, merge_op="Add", final_op="Id", subdiv_offsets=[0], **common(size, **changes)
    )


def until(holds: Callable[[], Any]) -> None:
    """Wait until a condition holds."""

    def poll() -> None:
        while not holds():
            time.sleep(0.01)

    within(poll, "the condition to hold")


class Client:
    """A session on one task, with nodes of that task alone.

    Args:
        target: the server of the task.
        number: that of the task.
        build: returns the fetches, given the number of the task.
    """

    def __init__(self, target: str, number: int, build: Callable[[int, Any], Any]) -> None:
        graph = graphmill.Graph()
        with graph.as_default(), graph.device(f"/job:worker/task:{number}/device:CPU:0"):
            self.x = graph.placeholder(graphmill.float32, shape=[2], name="x")
            self.fetches = build(number, self.x)
        self.session = graphmill.Session(target, graph=graph)

    def run(self, value: Sequence[float] = (0, 0)) -> Any:
        return self.session.run(self.fetches, {self.x: np.float32(value)})


@contextmanager
def clients(
    cluster: Sequence[graphmill.Server], build: Callable[[int, Any], Any]
) -> Iterator[tuple[list[Client], ThreadPoolExecutor]]:
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(2 * len(cluster)))
        made = [Client(server.target, number, build) for number, server in enumerate(cluster)]
        for client in made:
            stack.enter_context(client.session)
        yield made, pool


def reduced(number: int, x: Any) -> Any:
    del number
    return add(x, 2)


def test_members_in_two_sessions_reduce_again_and_again() -> None:
    with servers(2) as cluster, clients(cluster, reduced) as (made, pool):
        for step in range(1, 6):
            futures = [pool.submit(client.run, [step, n]) for n, client in enumerate(made)]
            for future in futures:
                assert future.result(30).tolist() == [2 * step, 1]


def test_another_task_leads_if_the_config_says_so() -> None:
    leader = "/job:worker/replica:0/task:1"
    with (
        servers(3, collective_group_leader=leader) as cluster,
        clients(cluster, lambda _, x: add(x, 3)) as (
            made,
            pool,
        ),
    ):
        futures = [pool.submit(client.run, [1, n]) for n, client in enumerate(made)]
        assert [future.result(30).tolist() for future in futures] == [[3, 3]] * 3
        led = [server._impl._worker.worker.group_leader._groups for server in cluster]
        assert [len(groups) for groups in led] == [0, 1, 0]


def test_two_devices_of_each_session_are_members() -> None:
    def build(number: int, x: Any) -> Any:
        graph = graphmill.get_default_graph()
        sums = []
        for device in range(2):
            with graph.device(f"/job:worker/task:{number}/device:CPU:{device}"):
                value = ops.array.const(value=np.float32([number, device]), dtype="float32")
                sums.append(add(value, 4))
        return sums

    with servers(2, num_cpus=2) as cluster, clients(cluster, build) as (made, pool):
        for _ in range(3):
            futures = [pool.submit(client.run) for client in made]
            for future in futures:
                assert [value.tolist() for value in future.result(30)] == [[2, 2]] * 2


def test_groups_reduce_across_sessions_with_several_devices() -> None:
    """Each session has members of two groups, as many devices as each group has members."""

    def build(number: int, x: Any) -> Any:
        graph = graphmill.get_default_graph()
        sums = []
        for device in range(2):
            with graph.device(f"/job:worker/task:{number}/device:CPU:{device}"):
                value = ops.array.const(value=np.float32([number + 1, device]), dtype="float32")
                sums.append(add(value, 2, group_key=10 + device))
        return sums

    with servers(2, num_cpus=2) as cluster, clients(cluster, build) as (made, pool):
        futures = [pool.submit(client.run) for client in made]
        for future in futures:
            assert [value.tolist() for value in future.result(30)] == [[3, 0], [3, 2]]


def test_members_gather_and_broadcast() -> None:
    def build(number: int, x: Any) -> Any:
        gathered = ops.distributed.collective_gather(x, shape=[4], **common(2))
        if number == 1:
            cast = ops.distributed.collective_bcast_send(x, shape=[2], **common(2, instance_key=3))
        else:
            cast = ops.distributed.collective_bcast_recv(
                T="float32", shape=[2], **common(2, instance_key=3)
            )
        return gathered, cast

    with servers(2) as cluster, clients(cluster, build) as (made, pool):
        futures = [pool.submit(client.run, [n, 7]) for n, client in enumerate(made)]
        for future in futures:
            gathered, cast = future.result(30)
            assert gathered.tolist() == [0, 7, 1, 7]
            assert cast.tolist() == [1, 7]


def test_keys_may_be_inputs() -> None:
    def build(number: int, x: Any) -> Any:
        del number
        keys = {
            name: ops.array.const(value=np.int32(value), dtype="int32")
            for name, value in (("group_size", 2), ("group_key", 4), ("instance_key", 5))
        }
        return ops.distributed.collective_reduce_v2(
            x, ordering_token=[], merge_op="Max", final_op="Id", timeout_seconds=20, **keys
        )

    with servers(2) as cluster, clients(cluster, build) as (made, pool):
        for _ in range(2):
            futures = [pool.submit(client.run, [n, 1 - n]) for n, client in enumerate(made)]
            assert [future.result(30).tolist() for future in futures] == [[1, 1]] * 2


def test_large_tensors_are_added() -> None:
    values = np.random.default_rng(5).standard_normal((2, 300_000)).astype(np.float32)

    def build(number: int, x: Any) -> Any:
        return add(ops.array.const(value=values[number], dtype="float32"), 2)

    with servers(2) as cluster, clients(cluster, build) as (made, pool):
        for _ in range(3):
            for future in [pool.submit(client.run) for client in made]:
                np.testing.assert_array_equal(future.result(30), values[0] + values[1])


def test_iterations_of_loops_meet() -> None:
    def build(number: int, x: Any) -> Any:
        def body(i: Any, total: Any) -> Any:
            return i + 1, add(total, 2)

        start = ops.array.const(value=np.float32([number + 1]), dtype="float32")
        zero = ops.array.const(value=np.int32(0), dtype="int32")
        return graphmill.while_loop(lambda i, total: i < 3, body, (zero, start))[1]

    with servers(2) as cluster, clients(cluster, build) as (made, pool):
        futures = [pool.submit(client.run) for client in made]
        assert [future.result(30).tolist() for future in futures] == [[12], [12]]


def test_steps_of_one_session_at_the_same_time_take_turns() -> None:
    with servers(2) as cluster, clients(cluster, reduced) as (made, pool):
        futures = [pool.submit(client.run, [1, 1]) for client in made for _ in range(2)]
        assert [future.result(30).tolist() for future in futures] == [[2, 2]] * 4


def test_absent_member_is_reported_after_timeout() -> None:
    def build(number: int, x: Any) -> Any:
        del number
        return add(x, 2, timeout_seconds=0.5)

    with servers(2) as cluster, clients(cluster, build) as (made, pool):
        with pytest.raises(errors.DeadlineExceededError, match="not all 2 members arrived within"):
            made[0].run()
        futures = [pool.submit(client.run, [1, 2]) for client in made]
        assert [future.result(30).tolist() for future in futures] == [[2, 4]] * 2


def checked(number: int, x: Any) -> Any:
    return add(ops.array.check_numerics(x, message="no number", name=f"checked{number}"), 2)


def test_a_step_that_fails_fails_the_member_that_waits_for_it() -> None:
    with servers(2) as cluster, clients(cluster, checked) as (made, pool):
        futures = [pool.submit(client.run, [1, 1]) for client in made]
        assert [future.result(30).tolist() for future in futures] == [[2, 2]] * 2
        waiting = pool.submit(made[1].run, [1, 1])
        leader = cluster[0]._impl._worker.worker.group_leader
        until(lambda: leader._groups[1].instances)
        with pytest.raises(errors.InvalidArgumentError, match="no number") as root:
            made[0].run([np.nan, 1])
        assert root.value.node == "checked0"
        with pytest.raises(errors.InvalidArgumentError, match=r"task:0.* failed: .*no number"):
            waiting.result(30)
        futures = [pool.submit(client.run, [3, 4]) for client in made]
        assert [future.result(30).tolist() for future in futures] == [[6, 8]] * 2


def test_members_must_agree_on_the_size_of_the_group() -> None:
    def build(number: int, x: Any) -> Any:
        return add(x, 2 + number)

    with servers(2) as cluster, clients(cluster, build) as (made, pool):
        for future in [pool.submit(client.run) for client in made]:
            with pytest.raises(errors.InternalError, match="same size"):
                future.result(30)


def test_members_must_agree_on_shapes() -> None:
    def build(number: int, x: Any) -> Any:
        return add(ops.array.const(value=np.ones(2 + number, np.float32), dtype="float32"), 2)

    with servers(2) as cluster, clients(cluster, build) as (made, pool):
        for future in [pool.submit(client.run) for client in made]:
            with pytest.raises(errors.OpError, match="shape"):
                future.result(30)


def test_a_lost_task_fails_the_members_that_wait_and_may_come_back() -> None:
    addresses = free_addresses(2)
    tasks = {"worker": addresses}
    other = Task(tasks, 1)
    with graphmill.Server(tasks, "worker", 0) as server:
        other.launch().wait_until_ready()
        try:
            with ThreadPoolExecutor(2) as pool:
                first = Client(server.target, 0, reduced)
                second = Client(f"grpc://{addresses[1]}", 1, reduced)
                futures = [pool.submit(client.run, [1, 2]) for client in (first, second)]
                assert [future.result(30).tolist() for future in futures] == [[2, 4]] * 2
                waiting = pool.submit(first.run, [1, 2])
                leader = server._impl._worker.worker.group_leader
                until(lambda: leader._groups[1].instances)
                other.kill()
                with pytest.raises(errors.UnavailableError, match=r"group 1 waits .*task:1"):
                    waiting.result(30)
                other.launch().wait_until_ready()
                first = Client(server.target, 0, reduced)
                second = Client(f"grpc://{addresses[1]}", 1, reduced)
                futures = [pool.submit(client.run, [3, 2]) for client in (first, second)]
                assert [future.result(30).tolist() for future in futures] == [[6, 4]] * 2
        finally:
            other.kill()
