"""Compare graphs on a JAX device with the same computation written by hand for `jax.jit`.

    python tests/bench/jax_device.py                      # XLA_CPU
    python tests/bench/jax_device.py --device-type GPU    # where JAX has one
    python tests/bench/jax_device.py --device-type GPU --networks MODELS

Each step is fed a NumPy array and returns one, so there is a copy to the device and one back;
weights stay on the device. Steps of both run alternately. Prints medians in ms, the ratio (above 1
graphmill is faster), and the largest difference of the results, relative to the largest value.

`--networks` adds the graphs of a folder that `tests/bench/population --out MODELS` wrote: frozen
graphs of one input and one output. There the function for `jax.jit` is the exported graph.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "core"), str(ROOT / "plugins")]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import graphmill  # noqa: E402
from graphmill import ops, proto  # noqa: E402
from graphmill.explain import explain_all  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[np.ndarray[Any, Any]], Any]

_WARM_UP = 12
_ROW = "{:24s} {:>10s} {:>10s} {:>6s} {:>10s}\n"
RNG = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray[Any, Any]:
    """Return weights that preserve the magnitude of values."""
    return (RNG.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)


class Case:
    """The same computation as a graph and as a JAX function.

    Attributes:
        x: what is fed.
        graph_def: the graph; its nodes have no devices.
        names: the fed and the fetched tensor.
        by_hand: the same computation for arrays of JAX.
    """

    def __init__(
        self,
        x: np.ndarray[Any, Any],
        graph_def: Any,
        by_hand: Any,
        names: tuple[str, str] = ("x:0", "y:0"),
    ) -> None:
        self.x = x
        self.graph_def = graph_def
        self.by_hand = by_hand
        self.names = names

    @classmethod
    def built(cls, x: np.ndarray[Any, Any], build: Any, by_hand: Any) -> Case:
        """Return the case of a graph whose nodes `build` makes from the fed tensor."""
        graph = graphmill.Graph()
        with graph.as_default():
            build(graph.placeholder("float32", x.shape, "x"))
        return cls(x, graph.as_graph_def(), by_hand)

    @classmethod
    def of_population(cls, folder: Path) -> Case:
        """Return the case in a folder that `tests/bench/population` wrote."""
        spec = json.loads((folder / "case.json").read_text("utf-8"))
        graph_def = proto.GraphDef.FromString((folder / "graph.pb").read_bytes())
        (x,) = np.load(folder / "feeds.npz").values()
        fed, fetched = spec["feeds"][0]["name"], spec["fetches"][0]
        with graphmill.Session(graph=graph_def, config={"device_count": {"GPU": 0}}) as session:
            function = graphmill.export.convert(session, "jax", {"x": fed}, {"y": fetched})
        return cls(x, graph_def, lambda x: function(function.params, {"x": x})["y"], (fed, fetched))

    def graph_step(self, device_type: str) -> tuple[graphmill.Session, Step]:
        """Return a session of the graph on a device, and its step after all compilations."""
        graph_def = proto.GraphDef()
        graph_def.CopyFrom(self.graph_def)
        for node in graph_def.node:
            node.device = f"/device:{device_type}:0"
        config = {"device_count": {device_type: 1}, "allow_soft_placement": True}
        session = graphmill.Session(graph=graph_def, config=config)
        fed, fetched = self.names
        step = session.make_callable(fetched, [fed])
        for _ in range(_WARM_UP):
            step(self.x)
            graphmill.default_host().background.wait_idle()
        return session, step

    def hand_step(self, device: Any) -> Step:
        """Return the step of the handwritten function."""
        compiled = jax.jit(self.by_hand)

        def step(x: np.ndarray[Any, Any]) -> Any:
            with jax.default_device(device), jax.enable_x64(True):
                return np.array(compiled(x))

        for _ in range(_WARM_UP):
            step(self.x)
        return step


def perceptron() -> Case:
    """Return eight layers of 1,024 units, for a batch of 256."""
    layers = [weights(1024, 1024) for _ in range(8)]

    def build(y: Any) -> None:
        for layer in layers:
            y = ops.nn.relu(y @ y.graph.constant(layer))
        ops.array.identity(y, name="y")

    def by_hand(y: Any) -> Any:
        for layer in layers:
            y = jax.nn.relu(y @ layer)
        return y

    return Case.built(weights(256, 1024), build, by_hand)


def convolutions() -> Case:
    """Return six convolutions of 3 by 3 and 64 channels, for a batch of 8 images of 56 by 56."""
    filters = [weights(3, 3, 64, 64) for _ in range(6)]

    def build(y: Any) -> None:
        for one in filters:
            y = ops.nn.conv2d(y, y.graph.constant(one), strides=[1, 1, 1, 1], padding="SAME")
            y = ops.nn.relu(y)
        ops.array.identity(y, name="y")

    def by_hand(y: Any) -> Any:
        for one in filters:
            numbers = ("NHWC", "HWIO", "NHWC")
            y = jax.lax.conv_general_dilated(y, one, (1, 1), "SAME", dimension_numbers=numbers)
            y = jax.nn.relu(y)
        return y

    return Case.built(weights(8, 56, 56, 64), build, by_hand)


def pointwise() -> Case:
    """Return 150 cheap operations on a million elements, which XLA fuses."""

    def build(y: Any) -> None:
        for _ in range(50):
            y = ops.math.tanh(y * 0.9 + 0.1)
        ops.array.identity(y, name="y")

    def by_hand(y: Any) -> Any:
        for _ in range(50):
            y = jnp.tanh(y * jnp.float32(0.9) + jnp.float32(0.1))
        return y

    return Case.built(weights(1024, 1024), build, by_hand)


CASES = {"perceptron": perceptron, "convolutions": convolutions, "pointwise": pointwise}


def compare(name: str, case: Case, device_type: str, rounds: int) -> None:
    """Time one case and print its row."""
    platform = "cpu" if device_type == "XLA_CPU" else device_type.lower()
    session, ours = case.graph_step(device_type)
    by_hand = case.hand_step(jax.devices(platform)[0])
    steps: dict[str, Step] = {"graph": ours, "by hand": by_hand}
    found: dict[str, list[float]] = {which: [] for which in steps}
    for _ in range(rounds):
        for which, step in steps.items():
            began = time.perf_counter()
            step(case.x)
            found[which].append(time.perf_counter() - began)
    results = ours(case.x), by_hand(case.x)
    error = float(np.abs(results[0] - results[1]).max() / np.abs(results[1]).max())
    tiers = {
        signature.tier
        for step in explain_all(session)
        for one in step.compilations.values()
        for cluster in one.clusters
        for signature in cluster.signatures
    }
    if tiers != {"compiled"}:
        raise SystemExit(f"{name}: not all is compiled, but {sorted(tiers)}")
    session.close()
    graph, hand = (statistics.median(found[which]) for which in ("graph", "by hand"))
    row = f"{graph * 1e3:.3f}", f"{hand * 1e3:.3f}", f"{hand / graph:.2f}", f"{error:.1e}"
    sys.stdout.write(_ROW.format(name, *row))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device-type", default="XLA_CPU", help="XLA_CPU or GPU")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--networks", type=Path, help="a folder of graphs of the population")
    parser.add_argument("cases", nargs="*", default=list(CASES))
    arguments = parser.parse_args()
    sys.stdout.write(_ROW.format("", "graph", "jax.jit", "ratio", "error"))
    for name in arguments.cases:
        compare(name, CASES[name](), arguments.device_type, arguments.rounds)
    for folder in sorted(arguments.networks.iterdir()) if arguments.networks else []:
        case = Case.of_population(folder)
        compare(folder.name, case, arguments.device_type, arguments.rounds)


if __name__ == "__main__":
    main()
