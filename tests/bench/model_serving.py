"""Compare a server of a model with minimal Python servers around TensorFlow.

    python tests/bench/model_serving.py --tensorflow /path/to/python [--seconds 5] [--rounds 3]
        [--warm-up 10]

The model is a perceptron of four layers. Each server and the client share all cores. `wrk` (from
the package of that name) is the client over HTTP; calls over gRPC are made by a Python process.
Servers take turns; the table has the medians of the rounds. The first requests are answered while
graphmill compiles a program for each batch size; the warm-up lasts longer than that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
sys.path[:0] = [str(ROOT / "core"), str(ROOT / "plugins")]

import numpy as np  # noqa: E402

import graphmill  # noqa: E402
from graphmill import ops  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

LAYERS: Final = (32, 64, 64, 32, 10)
CONNECTIONS: Final = (1, 32)
HTTP_PATH: Final = "/v1/models/mlp:predict"


class Server(NamedTuple):
    """A server to compare.

    Attributes:
        name: shown.
        is_ours: whether graphmill's interpreter runs it.
        arguments: those of its interpreter; MODEL stands for the folder of the model.
        protocol: "http" or "grpc".
    """

    name: str
    is_ours: bool
    arguments: tuple[str, ...]
    protocol: str


class Result(NamedTuple):
    """The measurements of a client.

    Attributes:
        rate: answers per second.
        p50, p99: milliseconds.
        processor: milliseconds of processors that the server used for each answer. On a machine
            with other work, this says more than the rate.
    """

    rate: float
    p50: float
    p99: float
    processor: float = 0.0


class Process(NamedTuple):
    """A server that runs.

    Attributes:
        address: where it listens.
        pid: its process.
    """

    address: str
    pid: int

    def processor_seconds(self) -> float:
        """Return the processor time of the process in seconds; Linux only."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


_OURS: Final = ("-m", "graphmill", "serve-model", "MODEL", "--name", "mlp", "--port", "0")
_THEIRS: Final = (str(HERE / "serving" / "minimal_tensorflow_server.py"), "MODEL")
SERVERS: Final = (
    Server("graphmill --no-batching", True, (*_OURS, "--no-batching"), "http"),
    Server("graphmill", True, _OURS, "http"),
    Server("http.server + TensorFlow", False, (*_THEIRS, "http"), "http"),
    Server("graphmill --no-batching", True, (*_OURS, "--no-batching", "--grpc-port", "0"), "grpc"),
    Server("graphmill", True, (*_OURS, "--grpc-port", "0"), "grpc"),
    Server("grpcio + TensorFlow", False, (*_THEIRS, "grpc"), "grpc"),
)


def write_model(folder: Path) -> None:
    """Write the model: inputs `x` of shape [?, 32], outputs `y` of shape [?, 10]."""
    rng = np.random.default_rng(0)
    graph = graphmill.Graph()
    with graph.as_default():
        x = value = graph.placeholder("float32", [None, LAYERS[0]], name="x")
        for before, after in pairwise(LAYERS):
            weights = rng.standard_normal((before, after), np.float32) / np.sqrt(before)
            value = ops.math.mat_mul(value, graph.constant(weights.astype(np.float32)))
            value = ops.nn.bias_add(value, graph.constant(np.zeros(after, np.float32)))
            value = ops.nn.relu(value) if after != LAYERS[-1] else ops.nn.softmax(value)
    with graphmill.Session(graph=graph) as session:
        graphmill.saved_model.simple_save(session, folder / "1", {"x": x}, {"y": value})


@contextlib.contextmanager
def running(server: Server, python: str, model: Path) -> Iterator[Process]:
    """Start a server."""
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment.pop("PYTHONPATH", None)
    if server.is_ours:
        environment["PYTHONPATH"] = os.pathsep.join((str(ROOT / "core"), str(ROOT / "plugins")))
    arguments = [str(model) if one == "MODEL" else one for one in server.arguments]
    process = subprocess.Popen(
        [python, *arguments], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        if not words or words[0] != "READY":
            raise RuntimeError(f"{server.name} did not start; its error is above")
        url = next(word for word in words if word.startswith(server.protocol))
        yield Process(url.partition("://")[2], process.pid)
    finally:
        process.terminate()
        process.communicate()


def measure_http(address: str, connections: int, seconds: float) -> Result:
    """Run wrk."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua", encoding="utf-8") as script:
        body = json.dumps({"instances": [[0.5] * LAYERS[0]]})
        script.write(f"wrk.method = 'POST'\nwrk.body = '{body}'\n")
        script.flush()
        done = subprocess.run(
            ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", "-s", script.name,
             f"http://{address}{HTTP_PATH}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise RuntimeError(f"requests failed:\n{done.stdout}")
    found = dict(re.findall(r"^\s+(50|99)%\s+(\S+)\s*$", done.stdout, re.MULTILINE))
    rate = re.search(r"Requests/sec:\s+(\S+)", done.stdout)
    if rate is None or len(found) < 2:
        raise RuntimeError(f"wrk measured nothing:\n{done.stdout}")
    return Result(float(rate[1]), _milliseconds(found["50"]), _milliseconds(found["99"]))


def measure_grpc(python: str, address: str, connections: int, seconds: float) -> Result:
    """Run the client over gRPC in a process."""
    paths = os.pathsep.join((str(ROOT / "core"), str(ROOT / "plugins")))
    done = subprocess.run(
        [python, str(HERE / "serving" / "grpc_load.py"), address, str(connections), str(seconds),
         str(LAYERS[0])],
        capture_output=True, text=True, check=True, env=dict(os.environ, PYTHONPATH=paths),
    )  # fmt: skip
    return Result(*json.loads(done.stdout))


def measure(
    server: Server, process: Process, connections: int, seconds: float, warm_up: float
) -> Result:
    """Measure a server after the same load for `warm_up` seconds."""

    def load(duration: float) -> Result:
        if server.protocol == "http":
            return measure_http(process.address, connections, duration)
        return measure_grpc(sys.executable, process.address, connections, duration)

    load(warm_up)
    before = process.processor_seconds()
    found = load(seconds)
    used = process.processor_seconds() - before
    # The client over gRPC warms the server up for a second more, which is counted here, too.
    answers = found.rate * (seconds + (server.protocol == "grpc"))
    return found._replace(processor=used / answers * 1000)


def _milliseconds(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[unit]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tensorflow", help="an interpreter with TensorFlow and grpcio")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=float, default=10.0)
    parser.add_argument("--protocol", choices=("http", "grpc"), help="only this one")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        parser.error("wrk is not installed")
    results: dict[tuple[str, int, str], list[Result]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch, "mlp")
        write_model(model)
        for _ in range(options.rounds):
            for server in SERVERS:
                if options.protocol not in (None, server.protocol):
                    continue
                python = sys.executable if server.is_ours else options.tensorflow
                if python is None:
                    continue
                with running(server, python, model) as process:
                    for connections in CONNECTIONS:
                        key = (server.protocol, connections, server.name)
                        found = measure(
                            server, process, connections, options.seconds, options.warm_up
                        )
                        results.setdefault(key, []).append(found)
    print("| protocol | connections | server | requests/s | p50 ms | p99 ms | CPU ms/request |")
    print("|---|---:|---|---:|---:|---:|---:|")
    for (protocol, connections, name), found in sorted(results.items()):
        medians = [statistics.median(values) for values in zip(*found, strict=True)]
        columns = " | ".join(f"{value:.2f}" for value in medians[1:])
        print(f"| {protocol} | {connections} | {name} | {medians[0]:.0f} | {columns} |")


if __name__ == "__main__":
    main()
