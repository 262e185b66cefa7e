"""Two tasks negotiate the transfer path of a large tensor."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, proto
from graphmill.spi import VariantRegistry
from graphmill.testing.timeouts import TIMEOUT, within

pytest.importorskip("grpc")

from tests.plugins.distributed.server.test_cluster import free_addresses

from graphmill_plugins.distributed.transfer.counters import (
    MESSAGE,
    PATHS,
    PIECES,
    SHARED_MEMORY,
    TransferCounters,
)
from graphmill_plugins.distributed.transfer.host_identity import host_identity
from graphmill_plugins.distributed.transfer.settings import TransferSettings
from graphmill_plugins.distributed.transfer.tensor_receiver import TensorReceiver
from graphmill_plugins.distributed.transfer.tensor_sender import (
    TensorSender,
    transfer_request,
)
from graphmill_plugins.distributed.wire.tensor_messages import RECV_TENSOR_RESPONSE

VARIANTS = VariantRegistry("variant")

pytestmark = pytest.mark.divided

needs_shared_memory = pytest.mark.skipif(not host_identity(), reason="memory cannot be shared")
SIZE = 1 << 18
NUM_BYTES = 4 * SIZE
SETTINGS: dict[str, Any] = {
    "transfer_shared_memory_min_bytes": 1 << 16,
    "transfer_pieces_min_bytes": 1 << 17,
    "transfer_piece_bytes": 1 << 17,
}


def config(**settings: Any) -> Any:
    made = graphmill.ConfigProto()
    entry = made.graph_options.rewrite_options.custom_optimizers.add(name="distributed")
    for name, value in {**SETTINGS, **settings}.items():
        kind = "b" if isinstance(value, bool) else "i"
        setattr(entry.parameter_map[name], kind, value)
    return made


class Cluster:
    """Two servers in this process; the first is the master."""

    def __init__(self, *settings: dict[str, Any]) -> None:
        addresses = free_addresses(2)
        self.servers = [
            graphmill.Server({"worker": addresses}, "worker", index, config(**own))
            for index, own in enumerate(settings)
        ]
        self.services = [server._impl._worker for server in self.servers]
        self.ends = threading.Semaphore(0)
        for service in self.services:
            service.worker.rendezvous.on_step_end(lambda step_id: self.ends.release())

    def session(self) -> Any:
        return graphmill.Session(self.servers[0].target, graph=there_and_back())

    def wait_for_ends(self, num_steps: int) -> None:
        """Wait until both tasks have cleaned up the given number of steps."""
        for _ in range(num_steps * len(self.services)):
            assert self.ends.acquire(timeout=TIMEOUT)

    def paths(self) -> list[dict[str, int]]:
        """Return the bytes that each task has sent, by path."""
        return [service.transfers.sent_bytes for service in self.services]

    def close(self) -> None:
        for server in self.servers:
            server.stop()


@pytest.fixture
def cluster(request: Any) -> Any:
    made = Cluster(*request.param)
    yield made
    made.close()


def there_and_back() -> Any:
    """A step that sends one tensor to the other task and receives one."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        with graph.device("/job:worker/task:0"):
            a = ops.math.add_v2(x, np.float32(1), name="a")
        with graph.device("/job:worker/task:1"):
            b = ops.math.mul(a, np.float32(2), name="b")
            fails = ops.array.check_numerics(b, message=b"nan!", name="fails")
        with graph.device("/job:worker/task:0"):
            ops.math.neg(b, name="c")
            ops.math.neg(fails, name="d")
    return graph


NEAR: dict[str, Any] = {}
FAR = {"transfer_shared_memory": False}
OFF = {"transfer_shared_memory": False, "transfer_pieces": False}
EXPECTED = {
    (SHARED_MEMORY,) * 2: [(NEAR, NEAR), (NEAR, {"transfer_pieces": False})],
    (PIECES,) * 2: [(FAR, FAR), (NEAR, FAR), (FAR, NEAR)],
    (MESSAGE,) * 2: [(OFF, OFF), (OFF, NEAR), (NEAR, OFF), (FAR, OFF)],
}
CASES = [
    pytest.param(settings, paths, marks=[needs_shared_memory] if paths[0] == SHARED_MEMORY else [])
    for paths, all_settings in EXPECTED.items()
    for settings in all_settings
]


@pytest.mark.parametrize(("cluster", "paths"), CASES, indirect=["cluster"])
def test_tensors_use_a_transfer_that_both_tasks_support(cluster: Cluster, paths: Any) -> None:
    x = np.arange(SIZE, dtype=np.float32)
    with cluster.session() as session:
        for _ in range(3):
            np.testing.assert_array_equal(session.run("c:0", {"x:0": x}), -2 * (x + 1))
    for sent, path in zip(cluster.paths(), paths, strict=True):
        assert {name: sent[name] // NUM_BYTES for name in PATHS} == {
            name: 3 * (name == path) for name in PATHS
        }
    received = [service.transfers.received_bytes[path] for service in cluster.services]
    assert received == [3 * NUM_BYTES] * 2


@needs_shared_memory
@pytest.mark.parametrize("cluster", [(NEAR, NEAR)], indirect=True)
def test_shared_memory_is_used_again_by_the_next_step(cluster: Cluster) -> None:
    x = np.zeros(SIZE, np.float32)
    with cluster.session() as session:
        for _ in range(20):
            session.run("c:0", {"x:0": x})
        cluster.wait_for_ends(20)
        gc.collect()
        sizes = [service.sender.pool.num_bytes for service in cluster.services]
        assert max(sizes) < 3 * NUM_BYTES
    assert [service._receiver.num_mapped for service in cluster.services] == [0, 0]


@pytest.mark.parametrize("cluster", [(NEAR, NEAR), (FAR, FAR)], indirect=True)
def test_failed_step_frees_everything(cluster: Cluster) -> None:
    x = np.full(SIZE, np.nan, np.float32)
    with cluster.session() as session:
        for _ in range(3):
            with pytest.raises(errors.InvalidArgumentError, match="nan!"):
                session.run("d:0", {"x:0": x})
        session.run("c:0", {"x:0": x})
    cluster.wait_for_ends(4)
    gc.collect()
    for service in cluster.services:
        assert len(service.sender.offers) == 0
        assert service._receiver.num_mapped == 0
        if service.sender.pool is not None:
            assert service.sender.pool.num_in_use == 0


@needs_shared_memory
@pytest.mark.parametrize("cluster", [(NEAR, NEAR)], indirect=True)
def test_unmappable_memory_is_sent_in_chunks(cluster: Cluster, monkeypatch: Any) -> None:
    from graphmill_plugins.distributed.transfer import shared_block

    def refuse(*arguments: Any) -> Any:
        raise PermissionError("another security domain")

    monkeypatch.setattr(shared_block, "map_block", refuse)
    x = np.arange(SIZE, dtype=np.float32)
    with cluster.session() as session:
        for _ in range(2):
            np.testing.assert_array_equal(session.run("c:0", {"x:0": x}), -2 * (x + 1))
    for service in cluster.services:  # the second step does not try again
        assert service.transfers.fallbacks == 1
        assert service.transfers.received_tensors[PIECES] == 2
        assert service.transfers.sent_tensors[SHARED_MEMORY] == 1


@needs_shared_memory
@pytest.mark.parametrize("cluster", [(NEAR, {"transfer_max_mapped": 0})], indirect=True)
def test_a_receiver_with_enough_mapped_tensors_takes_pieces(cluster: Cluster) -> None:
    with cluster.session() as session:
        session.run("c:0", {"x:0": np.zeros(SIZE, np.float32)})
    first, second = cluster.paths()
    assert (first[PIECES], second[SHARED_MEMORY]) == (NUM_BYTES, NUM_BYTES)


def mapped_blocks() -> set[str]:
    """Return the names of the shared memory that this process has mapped."""
    return set(re.findall(r"memfd:graphmill-\w+", Path("/proc/self/maps").read_text()))


@needs_shared_memory
def test_nothing_is_left_of_a_task_that_is_killed() -> None:
    gc.collect()
    mapped = mapped_blocks()
    addresses = free_addresses(2)
    text = json.dumps({"worker": addresses})
    command = ["-m", "graphmill", "serve", "--cluster", text, "--job", "worker", "--task", "1"]
    with (
        subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.PIPE, env={**os.environ}, text=True
        ) as other,
        graphmill.Server({"worker": addresses}, "worker", 0, config()) as server,
    ):
        assert within(other.stdout.readline, "the other task").startswith("READY")
        with graphmill.Session(server.target, graph=there_and_back()) as session:
            session.run("c:0", {"x:0": np.zeros(SIZE * 4, np.float32)})
            service = server._impl._worker
            assert service.transfers.sent_tensors[SHARED_MEMORY] == 1
            assert service.transfers.received_tensors[SHARED_MEMORY] == 1
            other.send_signal(signal.SIGKILL)
            other.wait()
            with pytest.raises(errors.UnavailableError):
                session.run("c:0", {"x:0": np.zeros(SIZE * 4, np.float32)})
        gc.collect()
        assert service.sender.pool.num_in_use == 0
        assert service._receiver.num_mapped == 0
    gc.collect()
    assert mapped_blocks() <= mapped
    assert not [path for path in Path("/dev/shm").iterdir() if path.name.startswith("graphmill-")]


def sender(**settings: Any) -> TensorSender:
    return TensorSender(
        TransferSettings(**settings), VARIANTS, TransferCounters(), lambda step_id: False
    )


@pytest.mark.parametrize("options", [None, proto.GraphDef(), b"garbage"])
def test_receivers_without_options_get_the_inline_tensor(options: Any) -> None:
    request = proto.RecvTensorRequest(step_id=1, rendezvous_key="k")
    if isinstance(options, bytes):
        request.transport_options.type_url = "type.googleapis.com/other.Transport"
        request.transport_options.value = options
    elif options is not None:
        request.transport_options.Pack(options)
    array = np.zeros(SIZE * 64, np.float32)
    message, tensors = RECV_TENSOR_RESPONSE.decode(
        sender().answer(request, array, is_dead=False), VARIANTS
    )
    assert not message.HasField("transport_options")
    assert tensors[0].value.nbytes == array.nbytes


def test_a_malformed_request_is_refused_with_a_type() -> None:
    request = proto.RecvTensorRequest()
    request.transport_options.Pack(proto.TensorTransferRequest())
    request.transport_options.value = b"\xff"
    with pytest.raises(errors.InvalidArgumentError, match="TensorTransferRequest"):
        transfer_request(request)
    response = proto.RecvTensorResponse()
    response.transport_options.Pack(proto.TensorTransferResponse())
    response.transport_options.value = b"\xff"
    with pytest.raises(errors.InvalidArgumentError, match="TensorTransferResponse"):
        TensorReceiver(TransferSettings(), VARIANTS).offered(response)


def test_responses_with_an_unknown_option_are_taken_as_they_are() -> None:
    response = proto.RecvTensorResponse()
    response.transport_options.Pack(proto.GraphDef())
    assert TensorReceiver(TransferSettings(), VARIANTS).offered(response) is None


@pytest.mark.parametrize(
    ("fields", "kind", "problem"),
    [
        ({"num_bytes": 8}, errors.InternalError, "was offered with 8 bytes"),
        ({"num_bytes": 12, "dtype": 7}, errors.InternalError, "expected numbers"),
        ({"num_bytes": 12, "dtype": 999}, errors.InternalError, "unknown type 999"),
    ],
)
def test_offers_that_contradict_themselves_are_refused(
    fields: Any, kind: Any, problem: str
) -> None:
    offer = proto.TensorTransferResponse(**{"transfer_id": 1, "dtype": 1, **fields})
    offer.tensor_shape.dim.add(size=3)
    response = proto.RecvTensorResponse()
    response.transport_options.Pack(offer)
    with pytest.raises(kind, match=problem):
        TensorReceiver(TransferSettings(), VARIANTS).offered(response)


def test_a_tensor_above_the_receivers_bound_is_refused() -> None:
    offer = proto.TensorTransferResponse(transfer_id=1, dtype=1, num_bytes=12)  # type: ignore[arg-type]
    offer.tensor_shape.dim.add(size=3)
    response = proto.RecvTensorResponse()
    response.transport_options.Pack(offer)
    receiver = TensorReceiver(TransferSettings(max_tensor_bytes=11), VARIANTS)
    with pytest.raises(errors.ResourceExhaustedError, match="transfer_max_tensor_bytes"):
        receiver.offered(response)


def test_request_for_unoffered_chunks_is_aborted() -> None:
    expected = proto.TensorTransferRequest(transfer_id=5, max_piece_bytes=1 << 20)
    with pytest.raises(errors.AbortedError, match="transfer 5 is unknown on this worker"):
        sender().piece(expected)


def test_offer_after_end_of_step_is_withdrawn() -> None:
    made = TensorSender(TransferSettings(), VARIANTS, TransferCounters(), lambda step_id: True)
    request = proto.RecvTensorRequest(step_id=1, rendezvous_key="k")
    request.transport_options.Pack(proto.TensorTransferRequest(max_piece_bytes=1 << 20))
    with pytest.raises(errors.AbortedError, match="step 1 has ended"):
        made.answer(request, np.zeros(1 << 26, np.uint8), is_dead=False)
    assert len(made.offers) == 0
