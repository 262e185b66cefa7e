"""Measure the costs of installed plugins, used and unused.

    OPENBLAS_NUM_THREADS=1 python tests/bench/plugin_costs.py [--rounds 15]

Rounds take turns. Assembling a host is processor time, the least of all rounds; steps are medians.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import os
import py_compile
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "core"), str(ROOT / "plugins")]
sys.path.append(str(ROOT / "contrib_devices" / "graphmill-loopback"))

import numpy as np  # noqa: E402

import graphmill  # noqa: E402
from graphmill.ops import math, nn  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 50
PLUGIN = """
from graphmill.spi import hookimpl
GRAPHMILL_SPI = ">=1.0,<2"
@hookimpl
def graphmill_register_devices(devices):
    devices.add("P{0}", "plugin_{0}.device:Factory", priority=1)
@hookimpl
def graphmill_register_kernels(kernels):
    kernels.add_module("plugin_{0}.kernels", ops=["Relu{0}"])
"""


def install(folder: Path, count: int) -> None:
    """Install compiled distributions with one plugin each, as an installer would."""
    for number in range(count):
        info = folder / f"graphmill_p{number}-1.0.dist-info"
        info.mkdir()
        head = f"Metadata-Version: 2.1\nName: graphmill-p{number}\nVersion: 1.0\n"
        text = "a line of a long description\n" * 100
        (info / "METADATA").write_text(f"{head}Requires-Dist: graphmill>=0.1,<1\n\n{text}")
        (info / "entry_points.txt").write_text(
            f"[graphmill.plugins]\np{number} = plugin_{number}\n"
        )
        module = folder / f"plugin_{number}.py"
        module.write_text(PLUGIN.format(number))
        py_compile.compile(str(module), doraise=True)


def _forget_plugins() -> None:
    for name in [name for name in sys.modules if re.fullmatch(r"plugin_\d+", name)]:
        del sys.modules[name]
    importlib.invalidate_caches()


def assemble() -> float:
    """Return the processor time to assemble a host, with plugin modules imported again.

    It excludes other threads, and the garbage collector, whose time depends on all objects of the
    process.
    """
    _forget_plugins()
    gc.disable()
    try:
        started = time.thread_time()
        graphmill.Host()
        return time.thread_time() - started
    finally:
        gc.enable()


def load_with_importlib() -> float:
    """Return the processor time to find and import the plugins with importlib.

    A yardstick that slows down with the machine.
    """
    _forget_plugins()
    gc.disable()
    try:
        started = time.thread_time()
        for point in importlib.metadata.entry_points(group="graphmill.plugins"):
            if point.value.startswith("plugin_") and point.dist is not None:
                point.load()
                point.dist.metadata["Requires-Dist"]
        return time.thread_time() - started
    finally:
        gc.enable()


def discovery(rounds: int, count: int = COUNT) -> tuple[float, float, float]:
    """Return the shortest discovery times in seconds.

    The first is that of a host without `count` more plugins, the second that of a host with them,
    and the third that of `importlib` for these plugins.
    """
    with tempfile.TemporaryDirectory() as folder:
        install(Path(folder), count)
        times: list[tuple[float, float, float]] = []
        for _ in range(rounds + 1):
            without = assemble()
            sys.path.append(folder)
            times.append((without, assemble(), load_with_importlib()))
            sys.path.remove(folder)
    least = [min(column) for column in zip(*times[1:], strict=True)]
    return least[0], least[1], least[2]


def chain(device: str, size: int) -> graphmill.Graph:
    """Return a graph of 120 nodes: products and elementwise ops."""
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(device):
        x = graph.placeholder("float32", [size, size], name="x")
        y = x
        for _ in range(40):
            y = nn.relu(math.mat_mul(y, x) * 0.01 + x)
        math.sum(y, [0, 1], name="y")
    return graph


def session(plugins: list[object], device: str, size: int) -> Callable[[], object]:
    """Return a step of a session without compilation, on a host with these plugins."""
    config = graphmill.ConfigProto(device_count={"LOOPBACK": 1} if "LOOPBACK" in device else {})
    config.graphmill.jit = "off"
    host = graphmill.Host(plugins=plugins)
    opened = graphmill.Session(graph=chain(device, size), host=host, config=config)
    call = opened.make_callable("y:0", ["x:0"])
    x = np.random.default_rng(1).normal(size=(size, size)).astype(np.float32)
    call(x)
    return lambda: call(x)


def in_turns(steps: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median time of each step in seconds."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds * 10):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    without, with_all, by_importlib = discovery(rounds)
    print(
        f"assembling a host: {without * 1e3:.1f} ms; with {COUNT} more plugins "
        f"{with_all * 1e3:.1f} ms, {(with_all - without) / COUNT * 1e3:.2f} ms each "
        f"({by_importlib / COUNT * 1e3:.2f} ms with importlib alone)"
    )
    import graphmill_loopback  # type: ignore[import-not-found]

    for size in (2, 64):
        found = in_turns(
            {
                "without": session([], "", size),
                "unused": session([graphmill_loopback], "", size),
                "used": session([graphmill_loopback], "/device:LOOPBACK:0", size),
            },
            rounds,
        )
        print(
            f"a step of 120 nodes of {size}x{size}: {found['without'] * 1e6:.0f} us; with the "
            f"plugin unused {found['unused'] * 1e6:.0f} us; on the loopback device "
            f"{found['used'] * 1e6:.0f} us, {found['without'] / found['used']:.2f} of the speed"
        )


if __name__ == "__main__":
    main()
