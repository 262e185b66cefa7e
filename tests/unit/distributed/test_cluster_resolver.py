"""Cluster resolvers find tasks in the environment."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.distributed.cluster_change import ClusterChange
from graphmill.distributed.cluster_resolver import (
    KubernetesClusterResolver,
    SimpleClusterResolver,
    SlurmClusterResolver,
    TFConfigClusterResolver,
    hosts_of,
)
from graphmill.errors import InvalidArgumentError, NotFoundError

CLUSTER = {"worker": ["a:1", "b:2"], "ps": {3: "c:4"}}
SPEC = {"ps": {3: "c:4"}, "worker": {0: "a:1", 1: "b:2"}}


def test_static_cluster_has_addresses_and_targets() -> None:
    resolver = SimpleClusterResolver(CLUSTER, "worker", 1)
    assert resolver.cluster_spec() == SPEC
    assert resolver.master() == "grpc://b:2"
    assert resolver.master("ps", 3) == "grpc://c:4"
    with pytest.raises(NotFoundError, match="no task 0 of job 'ps'"):
        resolver.master("ps", 0)


def test_fixed_addresses_never_change() -> None:
    stop = SimpleClusterResolver(CLUSTER).watch(lambda change: pytest.fail(str(change)))
    stop()


def test_resolver_without_task_has_no_target() -> None:
    with pytest.raises(NotFoundError, match="no task None of job None"):
        SimpleClusterResolver(CLUSTER).master()


def test_a_task_must_be_in_the_cluster() -> None:
    with pytest.raises(InvalidArgumentError, match="no task 7 of job 'worker'"):
        SimpleClusterResolver(CLUSTER, "worker", 7)


def tf_config(value: Any) -> dict[str, str]:
    return {"TF_CONFIG": value if isinstance(value, str) else json.dumps(value)}


def test_tf_config_has_cluster_and_task() -> None:
    cluster = {"worker": ["a:1", "b:2"], "ps": ["c:4"]}
    task = {"type": "worker", "index": "1"}
    resolver = TFConfigClusterResolver(tf_config({"cluster": cluster, "task": task}))
    assert resolver.master() == "grpc://b:2"
    assert (resolver.task_type, resolver.task_id) == ("worker", 1)
    assert TFConfigClusterResolver(tf_config({"cluster": cluster})).task_type is None


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("", NotFoundError, "not set"),
        ("{", InvalidArgumentError, "not JSON"),
        ([], InvalidArgumentError, 'has no "cluster"'),
        ({"cluster": {"worker": "a:1"}}, InvalidArgumentError, "expected a list"),
        ({"cluster": {}, "task": 7}, InvalidArgumentError, "is not {"),
        (
            {"cluster": {"w": ["a:1"]}, "task": {"type": "w", "index": "x"}},
            InvalidArgumentError,
            "task index",
        ),
        ({"cluster": {"w": ["a:1"]}, "task": {"type": "v"}}, InvalidArgumentError, "no task 0"),
    ],
)
def test_empty_tf_config_is_refused(value: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        TFConfigClusterResolver(tf_config(value))


SLURM = {
    "SLURM_STEP_NODELIST": "gpu[01-02],login",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_PROCID": "3",
}


def test_slurm_numbers_its_tasks_over_the_nodes() -> None:
    resolver = SlurmClusterResolver({"ps": 1, "worker": 4}, 7000, SLURM)
    assert resolver.cluster_spec() == {
        "ps": {0: "gpu01:7000"},
        "worker": {0: "gpu01:7001", 1: "gpu02:7000", 2: "gpu02:7001", 3: "login:7000"},
    }
    assert (resolver.task_type, resolver.task_id) == ("worker", 2)
    assert len(SlurmClusterResolver(environment=SLURM).cluster_spec()["worker"]) == 5


def test_slurm_must_have_started_enough() -> None:
    with pytest.raises(InvalidArgumentError, match="need 6 tasks, Slurm started 5"):
        SlurmClusterResolver({"worker": 6}, environment=SLURM)
    with pytest.raises(NotFoundError, match="no SLURM_STEP_NODELIST or SLURM_JOB_NODELIST"):
        SlurmClusterResolver(environment={})
    with pytest.raises(InvalidArgumentError, match="not a list of tasks per node"):
        SlurmClusterResolver(environment={**SLURM, "SLURM_STEP_TASKS_PER_NODE": "two"})
    with pytest.raises(InvalidArgumentError, match="SLURM_PROCID is 'first'"):
        SlurmClusterResolver(environment={**SLURM, "SLURM_PROCID": "first"})


@pytest.mark.parametrize(
    ("nodes", "hosts"),
    [
        ("one", ["one"]),
        ("a,b", ["a", "b"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[1,3-4]-ib,m7", ["n1-ib", "n3-ib", "n4-ib", "m7"]),
    ],
)
def test_node_lists_are_spelt_out(nodes: str, hosts: list[str]) -> None:
    assert hosts_of(nodes) == hosts


@pytest.mark.parametrize("nodes", ["", "a[1", "a1]", "a[x-y]", "a[1]b[2]", "a[]"])
def test_malformed_node_lists_are_refused(nodes: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Slurm node list"):
        hosts_of(nodes)


@given(st.text("ab[]-,01", max_size=12))
def test_any_node_list_gives_hosts_or_a_typed_error(nodes: str) -> None:
    with contextlib.suppress(InvalidArgumentError):
        assert all(hosts_of(nodes))


def test_pods_of_kubernetes_have_stable_names() -> None:
    jobs = {"worker": 2, "ps": 1}
    resolver = KubernetesClusterResolver(jobs, "mill.lab", 7000, {"HOSTNAME": "worker-1.mill"})
    assert resolver.cluster_spec() == {
        "ps": {0: "ps-0.mill.lab:7000"},
        "worker": {0: "worker-0.mill.lab:7000", 1: "worker-1.mill.lab:7000"},
    }
    assert resolver.master() == "grpc://worker-1.mill.lab:7000"
    other = KubernetesClusterResolver(jobs, "mill", environment={"HOSTNAME": "notebook"})
    assert other.task_type is None
    with pytest.raises(InvalidArgumentError, match="no task 2 of job 'worker'"):
        KubernetesClusterResolver(jobs, "mill", environment={"HOSTNAME": "worker-2"})


def resolvers() -> list[Any]:
    environment = tf_config({"cluster": {"worker": ["a:1", "b:2"]}})
    return [
        SimpleClusterResolver(CLUSTER, "worker", 0),
        TFConfigClusterResolver(environment),
        SlurmClusterResolver({"ps": 1, "worker": 4}, 7000, SLURM),
        KubernetesClusterResolver({"worker": 2, "ps": 1}, "mill"),
    ]


@pytest.mark.parametrize("resolver", resolvers(), ids=lambda found: type(found).__name__)
def test_every_resolver_reports_moved_and_restarted_tasks(resolver: Any) -> None:
    changes: list[Any] = []
    end = resolver.watch(changes.append)
    spec = resolver.cluster_spec()
    resolver.update(spec)  # nothing has changed
    assert changes == []
    resolver.update(spec, [("worker", 1)])
    assert changes.pop() == ClusterChange(spec, frozenset({("worker", 1)}))
    spec["worker"][1] = "elsewhere:1"
    resolver.update(spec)
    assert changes.pop() == ClusterChange(spec, frozenset({("worker", 1)}))
    assert resolver.cluster_spec() == spec
    end()
    end()
    resolver.update(spec, [("worker", 1)])
    assert changes == []


def test_added_and_removed_tasks_are_distinguished() -> None:
    resolver = SimpleClusterResolver({"worker": ["a:1", "b:1"]})
    changes: list[Any] = []
    resolver.watch(changes.append)
    resolver.update({"worker": ["a:1"], "ps": ["c:1"]})
    assert changes == [
        ClusterChange(
            {"worker": {0: "a:1"}, "ps": {0: "c:1"}},
            frozenset({("ps", 0)}),
            removed=frozenset({("worker", 1)}),
        )
    ]


def test_a_resolver_does_not_lose_the_task_of_its_process() -> None:
    resolver = SimpleClusterResolver(CLUSTER, "worker", 1)
    with pytest.raises(InvalidArgumentError, match="no task 1 of job 'worker'"):
        resolver.update({"worker": ["a:1"]})
    assert resolver.cluster_spec() == SimpleClusterResolver(CLUSTER).cluster_spec()


def test_tf_config_is_read_again_on_refresh() -> None:
    environment = dict(tf_config({"cluster": {"worker": ["a:1"]}}))
    resolver = TFConfigClusterResolver(environment)
    changes: list[Any] = []
    resolver.watch(changes.append)
    resolver.refresh()
    assert changes == []
    environment.update(tf_config({"cluster": {"worker": ["b:1"]}}))
    resolver.refresh()
    assert [change.cluster for change in changes] == [{"worker": {0: "b:1"}}]
    environment.clear()
    with pytest.raises(NotFoundError, match="TF_CONFIG"):
        resolver.refresh()


def test_slurm_is_read_again_on_refresh() -> None:
    environment = dict(SLURM)
    resolver = SlurmClusterResolver({"ps": 1, "worker": 4}, 7000, environment)
    changes: list[Any] = []
    resolver.watch(changes.append)
    environment["SLURM_STEP_NODELIST"] = "m[1-3]"
    resolver.refresh()
    (change,) = changes
    assert ("ps", 0) in change.tasks
    assert change.cluster["ps"][0] == "m1:7000"


def test_failing_watcher_does_not_block_other_watchers(caplog: Any) -> None:
    resolver = SimpleClusterResolver({"worker": ["a:1"]})
    changes: list[Any] = []

    def fail(change: Any) -> None:
        raise ValueError("broken")

    resolver.watch(fail)
    resolver.watch(changes.append)
    resolver.update({"worker": ["b:1"]})
    assert len(changes) == 1
    assert "an observer of the cluster failed" in caplog.text
