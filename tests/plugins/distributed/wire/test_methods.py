"""Both services have TensorFlow's methods, each with its messages."""

from __future__ import annotations

import pytest

from graphmill_plugins.distributed.wire.methods import MASTER_METHODS, WORKER_METHODS

METHODS = [*MASTER_METHODS.values(), *WORKER_METHODS.values()]


def test_paths_are_those_of_tensorflow() -> None:
    assert MASTER_METHODS["RunStep"].path == "/tensorflow.MasterService/RunStep"
    assert WORKER_METHODS["RecvTensor"].path == "/tensorflow.WorkerService/RecvTensor"
    assert (len(MASTER_METHODS), len(WORKER_METHODS)) == (10, 16)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_has_its_messages(method) -> None:
    assert method.request.DESCRIPTOR.full_name == f"graphmill.{method.name}Request"
    assert method.response.DESCRIPTOR.full_name == f"graphmill.{method.name}Response"
