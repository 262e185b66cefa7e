"""`graphmill serve` as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.plugins.distributed.served_master import (
    ARITHMETIC,
    QUEUES,
    TIMEOUT,
    MasterClient,
    status_of,
)


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "graphmill", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def address_of(process: subprocess.Popen[str]) -> str:
    word, address = process.stdout.readline().split()
    assert word == "READY"
    return address


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_prints_its_address_and_ends_on_a_signal(number):
    with start() as process:
        with MasterClient(address_of(process)) as client:
            handle = client.create(ARITHMETIC)
            assert client.run(handle, ["y:0"], {"x:0": [1.0, 2.0]}) == [[1, 4]]
        process.send_signal(number)
        output, problems = process.communicate(timeout=TIMEOUT)
    assert (output, problems, process.returncode) == ("", "", 0)


def test_serve_cancels_steps_after_its_grace():
    with start("--grace", "0") as process:
        with MasterClient(address_of(process)) as client:
            handle = client.create(QUEUES)
            waiting = client.future("RunStep", client.run_request(handle, ["wait:0"]))
            client.run(handle, ["has_started:0"])
            process.terminate()
            assert status_of(waiting.result)[0] in {"CANCELLED", "UNAVAILABLE"}
        assert process.wait(TIMEOUT) == 0


def test_serve_understands_tf_config():
    cluster = {"worker": ["127.0.0.1:0"]}
    said = {"cluster": cluster, "task": {"type": "worker", "index": 0}}
    with start(TF_CONFIG=json.dumps(said)) as process:
        address = address_of(process)
        process.terminate()
        assert process.wait(TIMEOUT) == 0
    assert address.startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--cluster", "{"], "--cluster is not JSON"),
        (["--cluster", "/nowhere"], "neither a JSON object nor a file"),
        (["--cluster", '{"ps": ["h:1"]}', "--job", "worker"], "no task 0 of job 'worker'"),
        (["--cluster", '{"ps": ["nohost"]}'], "'nohost' is not an address"),
        (["--config", '{"no_such_field": 1}'], "no_such_field"),
    ],
)
def test_serve_refuses_inconsistent_options(arguments, problem):
    with start(*arguments) as process:
        output, problems = process.communicate(timeout=TIMEOUT)
    assert (output, process.returncode) == ("", 3)
    assert problem in problems
