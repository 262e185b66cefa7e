"""The Kubernetes manifests match the resolvers in names, ports and addresses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from graphmill.distributed.cluster_resolver import (
    KubernetesClusterResolver,
    TFConfigClusterResolver,
)

yaml = pytest.importorskip("yaml")

FOLDER = Path(__file__).parents[2] / "examples" / "kubernetes"
PORT = 8888
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def documents(name: str) -> dict[str, Any]:
    """Return the objects of a manifest by kind."""
    found = yaml.safe_load_all((FOLDER / name).read_text("utf-8"))
    return {document["kind"]: document for document in found}


def environment(container: dict[str, Any], index: int) -> dict[str, str]:
    """Return the variables of a container as Kubernetes sets them for the pod of an index."""
    found = {"TASK_INDEX": str(index)}
    for variable in container["env"]:
        if "value" in variable:
            found[variable["name"]] = re.sub(
                r"\$\((\w+)\)", lambda match: found[match[1]], variable["value"]
            )
        else:
            assert variable["name"] == "TASK_INDEX"
    return found


def tasks() -> list[Any]:
    """Return job, number of pods, container, and pattern of the pods' names, of all tasks."""
    stateful = documents("statefulset.yaml")["StatefulSet"]["spec"]
    found = [
        ("worker", stateful["replicas"], stateful["template"]["spec"], "worker-{}", "statefulset")
    ]
    jobs = documents("jobset.yaml")["JobSet"]["spec"]["replicatedJobs"]
    for job in jobs[:2]:
        spec = job["template"]["spec"]
        assert spec["parallelism"] == spec["completions"]
        name = f"mill-{job['name']}-0-{{}}"
        found.append((job["name"], spec["completions"], spec["template"]["spec"], name, "jobset"))
    return [pytest.param(*each, id=f"{each[-1]}-{each[0]}") for each in found]


@pytest.mark.parametrize(("job", "count", "pod", "pattern", "manifest"), tasks())
def test_each_pod_is_the_task_that_its_name_says(
    job: str, count: int, pod: Any, pattern: str, manifest: str
) -> None:
    (container,) = pod["containers"]
    for index in range(count):
        resolver = TFConfigClusterResolver(environment(container, index))
        assert (resolver.task_type, resolver.task_id) == (job, index)
        addresses = resolver.cluster_spec()[job]
        assert len(addresses) == count
        assert addresses[index] == f"{pattern.format(index)}.mill:{PORT}"


@pytest.mark.parametrize(("job", "count", "pod", "pattern", "manifest"), tasks())
def test_ports_and_probes_are_those_of_the_addresses(
    job: str, count: int, pod: Any, pattern: str, manifest: str
) -> None:
    (container,) = pod["containers"]
    assert [port["containerPort"] for port in container["ports"]] == [PORT]
    probes = [container[name] for name in ("readinessProbe", "livenessProbe") if name in container]
    assert probes
    assert {probe["grpc"]["port"] for probe in probes} == {PORT}
    assert pod["securityContext"]["runAsNonRoot"] is True


def test_all_tasks_of_the_jobset_agree_on_the_cluster() -> None:
    clusters = []
    for job in documents("jobset.yaml")["JobSet"]["spec"]["replicatedJobs"][:2]:
        (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
        clusters.append(json.loads(environment(container, 0)["TF_CONFIG"])["cluster"])
    assert clusters[0] == clusters[1]
    assert {job: len(tasks) for job, tasks in clusters[0].items()} == {"ps": 1, "worker": 4}


def test_stateful_set_matches_the_kubernetes_resolver() -> None:
    found = documents("statefulset.yaml")
    stateful = found["StatefulSet"]
    name, replicas = stateful["metadata"]["name"], stateful["spec"]["replicas"]
    resolver = KubernetesClusterResolver({name: replicas}, stateful["spec"]["serviceName"], PORT)
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    assert TFConfigClusterResolver(environment(container, 0)).cluster_spec() == (
        resolver.cluster_spec()
    )


def test_the_service_is_headless_and_finds_the_pods() -> None:
    found = documents("statefulset.yaml")
    service, stateful = found["Service"], found["StatefulSet"]["spec"]
    labels = stateful["template"]["metadata"]["labels"]
    assert service["metadata"]["name"] == stateful["serviceName"]
    assert service["spec"]["clusterIP"] == "None"
    assert [port["port"] for port in service["spec"]["ports"]] == [PORT]
    for selector in (
        service["spec"]["selector"],
        stateful["selector"]["matchLabels"],
        found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    (rule,) = found["NetworkPolicy"]["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [PORT]
    (volume,) = stateful["template"]["spec"]["volumes"]
    claim = volume["persistentVolumeClaim"]["claimName"]
    assert claim == found["PersistentVolumeClaim"]["metadata"]["name"]


def test_steps_have_time_to_end_before_a_pod_is_killed() -> None:
    pod = documents("statefulset.yaml")["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    option, grace, *_ = container["args"]
    assert option == "--grace"
    assert float(grace) < pod["terminationGracePeriodSeconds"]


@pytest.mark.parametrize("name", ["statefulset.yaml", "jobset.yaml"])
def test_names_are_labels_of_the_domain_name_system(name: str) -> None:
    for document in documents(name).values():
        assert _DNS_LABEL.fullmatch(document["metadata"]["name"])
        assert "/" in document["apiVersion"] or document["apiVersion"] == "v1"
    text = (FOLDER / name).read_text("utf-8")
    for host in re.findall(rf'"?([a-z0-9.-]+):{PORT}', text):
        assert all(_DNS_LABEL.fullmatch(label) for label in host.split(".")), host


def test_jobset_trainer_reaches_a_task_and_ends_the_set() -> None:
    spec = documents("jobset.yaml")["JobSet"]["spec"]
    trainer = spec["replicatedJobs"][2]
    (container,) = trainer["template"]["spec"]["template"]["spec"]["containers"]
    target = container["command"][-1]
    (task,) = spec["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]["containers"]
    assert target == TFConfigClusterResolver(environment(task, 0)).master()
    assert spec["successPolicy"]["targetReplicatedJobs"] == [trainer["name"]]
    assert spec["network"]["subdomain"] == "mill"
