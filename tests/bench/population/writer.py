"""Write a case of the population: its graph, its feeds and TensorFlow's results."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from benchmark.case_folder import write_case

if TYPE_CHECKING:
    from pathlib import Path

    from population.registry import Case

tf1 = tf.compat.v1
_INIT = "population_init"


def write(case: Case, root: Path) -> Path:
    """Write the folder of a case below `root` and return it."""
    folder = root / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tf.Graph().as_default() as graph:
        tf1.set_random_seed(1)
        built = case.build(**case.arguments)
        with tf.control_dependencies(None):
            initializers = [tf1.global_variables_initializer(), tf1.tables_initializer()]
            tf.group(*initializers, name=_INIT)
    steps = case.spec.get("steps", 1)
    (folder / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString(deterministic=True))
    expected = _results(graph, built, steps)
    spec = {
        "name": case.name,
        "family": case.family,
        "kind": "graph",
        "feeds": [_feed(name, value) for name, value in built.feeds.items()],
        "fetches": [tensor.name for tensor in built.fetches],
        "targets": [target.name for target in built.targets],
        "init": [{"targets": [_INIT], "feeds": []}],
        "rtol": 2e-3,
        "atol": 1e-4,
        "compare": ["allclose"] * len(built.fetches),
        **case.spec,
    }
    write_case(folder, spec, list(built.feeds.values()), expected)
    return folder


def _results(graph: Any, built: Any, steps: int) -> list[Any]:
    feeds = {f"{name}:0": value for name, value in built.feeds.items()}
    with tf1.Session(graph=graph) as session:
        session.run(_INIT)
        fetches = [*built.fetches, *built.targets]
        runs = [session.run(fetches, feeds)[: len(built.fetches)] for _ in range(steps)]
    if steps == 1:
        return [np.asarray(value) for value in runs[0]]
    return [np.stack(values) for values in zip(*runs, strict=True)]


def _feed(name: str, value: Any) -> dict[str, Any]:
    dtype = "string" if value.dtype == object else str(value.dtype)
    return {"name": f"{name}:0", "dtype": dtype, "shape": list(value.shape)}
