"""`StepSequences`: step ids of graphs with a `collective_graph_key`, at the leader.

Semantics: `GetStepSequenceAsync` in
`tensorflow/core/distributed_runtime/rpc_collective_executor_mgr.cc`.
"""

from __future__ import annotations

import secrets
import threading

from graphmill.spi.protos import proto


class StepSequences:
    """The next step id of each graph key; the first one is random.

    A TensorFlow master asks once, counts its successful steps itself, and repeats a request without
    end if the leader refuses it.

    Threads: `_lock` guards the table.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: dict[int, int] = {}

    def get(self, request: proto.GetStepSequenceRequest) -> proto.GetStepSequenceResponse:
        """Return the next step id of each graph key, in the order of the request."""
        response = proto.GetStepSequenceResponse()
        with self._lock:
            for key in request.graph_key:
                number = self._next.setdefault(key, secrets.randbits(56) | 1 << 56)
                response.step_sequence.add(graph_key=key, next_step_id=number)
        return response
