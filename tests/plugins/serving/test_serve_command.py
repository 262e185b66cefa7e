"""`graphmill serve-model` as a process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from tests.plugins.serving.served_models import TIMEOUT, write_line

pytest.importorskip("uvicorn")
# The plugin is named, so that an installation from before it existed will do.
MAIN = (
    "import sys; from graphmill.cli.main import run_command_line as run; "
    "from graphmill.cli.options import Settings; from graphmill.plugin.host import Host; "
    "import graphmill_plugins.serving as p; "
    "host = Host([p], load_entry_points=False); "
    "sys.exit(run(['serve-model', *sys.argv[1:]], Settings(host=host)))"
)


def start(*arguments, port=0):
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, *map(str, arguments), "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_command_prints_its_address_and_ends_on_a_signal(tmp_path, number):
    with start(write_line(tmp_path / "half"), "--log-level", "info", "--log-format", "json") as it:
        word, url = it.stdout.readline().split()
        assert word == "READY"
        body = json.dumps({"instances": [1]}).encode()
        with urllib.request.urlopen(f"{url}/v1/models/half:predict", body) as answer:
            assert json.load(answer) == {"predictions": [2.5]}
        it.send_signal(number)
        output, log = it.communicate(timeout=TIMEOUT)
    assert (output, it.returncode) == ("", 0)
    lines = [one for one in map(json.loads, log.splitlines()) if ".serving" in one["logger"]]
    events = {one["event"]: one for one in lines}
    assert list(events) == ["model loaded", "ready", "request", "draining", "stopped"]
    request = events["request"]
    assert (request["api"], request["model"], request["status"]) == ("rest/predict", "half", 200)
    assert request["bytes_received"] == len(body)


@pytest.mark.parametrize(("level", "count"), [("info", 1), ("error", 0)])
def test_warnings_of_the_http_server_are_events(tmp_path, level, count):
    model = write_line(tmp_path / "half")
    with start(model, "--log-level", level, "--log-format", "json") as process:
        host, port = process.stdout.readline().split("//")[1].rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=TIMEOUT) as connection:
            connection.sendall(b"no request\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
        process.terminate()
        _, log = process.communicate(timeout=TIMEOUT)
    events = [(one["level"], one["event"]) for one in map(json.loads, log.splitlines())]
    assert events.count(("warning", "Invalid HTTP request received.")) == count


def test_addresses_are_printed_as_json(tmp_path):
    with start(write_line(tmp_path / "half"), "--json") as process:
        (url,) = json.loads(process.stdout.readline())["ready"]
        assert url.startswith("http://127.0.0.1:")
        process.terminate()
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        ([], 2, "give either MODEL or --model-config-file"),
        (["/nowhere"], 3, "there is no folder /nowhere"),
        (["--model-config-file", "/nowhere"], 3, "/nowhere"),
        (["/tmp", "--name", "a/b"], 3, "is not a model name"),
        (["/tmp", "/", "--name", "m"], 2, "--name is for a single MODEL"),
        (["/tmp", "--no-batching", "--max-batch-size", "4"], 2, "contradict --no-batching"),
    ],
)
def test_it_refuses_inconsistent_options(arguments, code, problem):
    with start(*arguments) as process:
        output, problems = process.communicate(timeout=TIMEOUT)
    assert (output, process.returncode) == ("", code)
    assert problem in problems


def test_a_port_in_use_is_reported(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        with start(write_line(tmp_path / "m"), port=port) as process:
            output, problems = process.communicate(timeout=TIMEOUT)
    assert (output, process.returncode) == ("", 3)
    assert f"cannot listen on 127.0.0.1:{port}" in problems
