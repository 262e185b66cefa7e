"""Every method answers garbage, truncated and mutated requests with typed statuses."""

from __future__ import annotations

import os
import random
import re
import resource
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import proto
from graphmill.testing.timeouts import within

grpc = pytest.importorskip("grpc")
from tests.plugins.distributed.mutations import Corpus, mutated  # noqa: E402
from tests.plugins.distributed.processes import Task  # noqa: E402
from tests.plugins.distributed.served_master import ARITHMETIC, MasterClient  # noqa: E402
from tests.plugins.distributed.server.test_cluster import free_addresses  # noqa: E402

from graphmill_plugins.distributed.wire.methods import MASTER_METHODS, WORKER_METHODS  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.divided

METHODS = (*MASTER_METHODS.values(), *WORKER_METHODS.values())
RESPONSES = {method.path: method.response for method in METHODS}
CODES = {status.value[0]: status.name for status in grpc.StatusCode}
UNTYPED = ("UNKNOWN", "INTERNAL", "DEADLINE_EXCEEDED", "UNAVAILABLE")
SEED = int(os.environ.get("GRAPHMILL_MUTATION_SEED", "20250101"))
ROUND = 100
"""Number of mutated requests after which the server must still respond correctly."""
SECONDS = 30.0
WAITING_SECONDS = 0.1
WAITING = ("RecvTensor", "RunStep", "RunGraph", "CompleteGroup", "CompleteInstance")
"""Methods that may wait for others: a sender, a queue, members, the rest of a partial run."""
REFUSED_MEMBERS = re.compile(r"same size|is full|instance keys|has \d+ members")
"""Refusals of members of collectives, which are INTERNAL errors as in TensorFlow."""
COUNT = int(os.environ.get("GRAPHMILL_MUTATION_COUNT", "1000"))
"""Number of requests; each method receives about the same number."""
PART = 500
"""Number of requests of one test."""


@pytest.fixture(scope="module")
def task() -> Iterator[Task]:
    made = Task({"worker": free_addresses(1)}, 0)
    made.launch().wait_until_ready()
    # What asks for all of the memory is refused it, instead of the machine.
    limit = 6 << 30
    resource.prlimit(made.process.pid, resource.RLIMIT_AS, (limit, limit))
    yield made
    made.kill()


def status_of(client: MasterClient, path: str, data: bytes) -> tuple[str, str]:
    """Return the status and message of the response."""
    seconds = WAITING_SECONDS if path.endswith(WAITING) else SECONDS
    try:
        answer = client.channel.unary_unary(path)(data, timeout=seconds)
    except grpc.RpcError as error:
        if path.endswith(WAITING) and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return "OK", "waits"
        return error.code().name, error.details() or ""
    body = RESPONSES[path].FromString(answer)
    return CODES[getattr(body, "status_code", 0)], getattr(body, "status_error_message", "")


def assert_right_answers(client: MasterClient) -> None:
    handle = client.create(ARITHMETIC)
    assert client.run(handle, ["y:0"], {"x:0": np.float32([3, 4])}) == [[9, 16]]
    client.call("CloseSession", proto.CloseSessionRequest(session_handle=handle))


@pytest.mark.parametrize("part", range(-(-COUNT // PART)))
def test_mutated_requests_get_typed_statuses_and_do_no_harm(part: int, task: Task) -> None:
    chance = random.Random(f"{SEED} {part}")
    untyped: list[Any] = []
    with MasterClient(task.target) as client:
        for start in range(part * PART, (part + 1) * PART, ROUND):
            corpus = within(lambda: Corpus(client), "the valid requests")
            for number in range(start, start + ROUND):
                path = METHODS[number % len(METHODS)].path
                message = chance.choice(corpus.requests[path])
                data = mutated(message, chance)
                code, text = status_of(client, path, data)
                if path.endswith("/Reset") and code == "OK":  # there are no sessions left
                    corpus = within(lambda: Corpus(client), "the valid requests")
                assert task.process.poll() is None, (path, data)
                is_refused = code == "INTERNAL" and REFUSED_MEMBERS.search(text)
                if code in UNTYPED and not is_refused:
                    untyped.append((path, code, text, data))
            within(lambda: assert_right_answers(client), "an answer after mutated requests")
    assert untyped == []
