"""`import graphmill` is cheap: few modules, little time, little memory."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import ops

HEAVY = (
    "absl",
    "array_api_compat",
    "click",
    "fsspec",
    "google.protobuf",
    "google_crc32c",
    "graphmill_plugins",
    "grpc",
    "importlib.metadata",
    "jax",
    "jaxlib",
    "ml_dtypes",
    "rich",
    "tensorflow",
)
"""Modules that `import graphmill` never loads; NumPy is allowed."""

BUDGET_SECONDS = 0.150
BUDGET_BYTES = 40 << 20

# The peak is VmHWM: unlike ru_maxrss it does not count the process that started this one.
REPORT = """
import json, sys, time
started = time.process_time()  # other load does not count
{statement}
seconds = time.process_time() - started
modules = sorted(sys.modules)
try:
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
except OSError:
    peak = None
print(json.dumps({{"seconds": seconds, "peak": peak, "modules": modules}}))
"""


FIRST_RUN = """
import json, sys
import numpy as np
import graphmill
from graphmill.proto import GraphDef
with graphmill.Session(graph=GraphDef.FromString({graph!r})) as session:
    assert session.run("z:0", {{"x:0": np.float32(3)}}) == 3
    from graphmill.ops.definition.op_registry import bundled_ops
    read = sorted(bundled_ops()._parsed)
    modules = dict(sys.modules)
classes = [
    f"{{name}}.{{value.__name__}}"
    for name, module in modules.items()
    if name.partition(".")[0] in ("graphmill", "graphmill_plugins")
    for value in vars(module).values()
    if isinstance(value, type) and value.__module__ == name
    and "__dataclass_fields__" in vars(value)
]
print(json.dumps({{"modules": sorted(modules), "classes": sorted(classes), "read": read}}))
"""

NOT_FOR_A_FIRST_RUN = (
    "graphmill.backprop",
    "graphmill.cli",
    "graphmill.explain",
    "graphmill.plugin.step_observers",
    "graphmill.runtime.kernels.lowering",
    "graphmill.saved",
    "graphmill.testing",
    "graphmill.train",
    "graphmill_plugins.distributed.client",
    "graphmill_plugins.distributed.server",
    "graphmill_plugins.jit.functionalize",
    "graphmill_plugins.jit.ir.cluster_attr",
    "graphmill_plugins.jit.programs",
    "graphmill_plugins.jit.clustering",
    "graphmill_plugins.jit.straight",
    "graphmill_plugins.jit.tiers",
    "graphmill_plugins.jit.tracing",
    "grpc",
    "jax",
    "jaxlib",
)
"""Modules for compiled, watched or differentiated steps, other programs, or clusters."""

MAX_MODULES = 211
"""Maximum number of graphmill's modules in a first run; each takes about 0.25 ms to import.

A package counts if it has code of its own: a docstring alone is read in a tenth of that.
"""

MAX_MODULES_OF_A_LOOP = 281
"""The same for the first run of a loop, which becomes a cluster immediately."""

NOT_FOR_A_FIRST_LOOP = (
    "graphmill_plugins.jit.idioms.constant_segments",
    "graphmill_plugins.jit.idioms.multi_hot",
    "graphmill_plugins.jit.idioms.sampled_softmax_mask",
    "graphmill_plugins.jit.ir.pytrees",
    "graphmill_plugins.jit.rewrites",
    "graphmill_plugins.jit.tracing.trace",
    "graphmill_plugins.passes.function_inlining",
    "graphmill_plugins.passes.lower_functional_ops",
    "jax",
)
"""Modules that the first loop must not load: other passes, other values, the compiler."""

MAX_DATA_CLASSES = 4
"""Maximum number of frozen data classes; each takes 1 ms to create, a named tuple 0.3 ms."""


def child(statement: str) -> dict[str, Any]:
    """Run a statement in a fresh interpreter; return time, memory and the modules loaded."""
    return report(REPORT.format(statement=statement))


def report(program: str) -> dict[str, Any]:
    """Run a program in a fresh interpreter; return the JSON that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def loaded(modules: list[str], *heavy: str) -> list[str]:
    return [m for m in modules if any(m == h or m.startswith(f"{h}.") for h in heavy)]


def test_import_loads_no_heavy_modules() -> None:
    assert loaded(child("import graphmill")["modules"], *HEAVY) == []


def test_a_plugin_module_needs_little_more() -> None:
    modules = child("import graphmill; graphmill.hookimpl")["modules"]
    assert "pluggy" in modules
    assert loaded(modules, *HEAVY) == []
    assert loaded(modules, "graphmill.plugin.manager", "graphmill.runtime", "numpy") == []


def test_assembling_a_host_imports_no_kernel_and_no_jax() -> None:
    modules = child("import graphmill; graphmill.default_host()")["modules"]
    heavy = [name for name in HEAVY if name not in ("graphmill_plugins", "importlib.metadata")]
    assert loaded(modules, *set(heavy) - {"ml_dtypes", "google.protobuf"}) == []


@pytest.fixture(scope="module")
def first_run() -> dict[str, Any]:
    """Return the modules loaded by a process that runs a graph of three nodes once."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        ops.math.neg(ops.math.neg(x), name="z")
    return report(FIRST_RUN.format(graph=graph.as_graph_def().SerializeToString()))


@pytest.fixture(scope="module")
def first_loop() -> dict[str, Any]:
    """Return the modules loaded by a process that runs a v1 loop once."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        start, one = graph.constant(np.float32(0)), graph.constant(np.float32(1))
        last = graphmill.while_loop(
            lambda i: ops.math.less(i, x), lambda i: ops.math.add(i, one), [start]
        )
        ops.array.identity(last, name="z")
    return report(FIRST_RUN.format(graph=graph.as_graph_def().SerializeToString()))


def is_empty_package(name: str) -> bool:
    """Return whether a module is a package with only a docstring."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.submodule_search_locations is None or spec.origin is None:
        return False
    return len(ast.parse(Path(spec.origin).read_bytes()).body) <= 1


def test_first_run_loads_only_what_interprets_a_step(first_run: dict[str, Any]) -> None:
    assert loaded(first_run["modules"], *NOT_FOR_A_FIRST_RUN) == []
    ours = loaded(first_run["modules"], "graphmill", "graphmill_plugins")
    with_code = [name for name in ours if not is_empty_package(name)]
    assert len(with_code) <= MAX_MODULES, (len(with_code), with_code)


def test_first_loop_loads_no_passes_for_other_graphs(first_loop: dict[str, Any]) -> None:
    modules = first_loop["modules"]
    assert "graphmill_plugins.jit.functionalize" in modules
    assert "graphmill_plugins.jit.straight.straight_line" in modules
    assert loaded(modules, *NOT_FOR_A_FIRST_LOOP) == []
    ours = loaded(modules, "graphmill", "graphmill_plugins")
    with_code = [name for name in ours if not is_empty_package(name)]
    assert len(with_code) <= MAX_MODULES_OF_A_LOOP, len(with_code)
    assert len(first_loop["classes"]) <= MAX_DATA_CLASSES, first_loop["classes"]


def test_first_run_creates_few_data_classes(first_run: dict[str, Any]) -> None:
    assert len(first_run["classes"]) <= MAX_DATA_CLASSES, first_run["classes"]


def test_first_run_reads_the_definitions_of_few_ops(first_run: dict[str, Any]) -> None:
    """A first run parses only the definitions of its graph's ops and their families."""
    assert set(first_run["read"]) >= {"Neg", "Placeholder"}
    assert len(first_run["read"]) < 10, first_run["read"]


def test_import_is_quick() -> None:
    """`import graphmill` is within the budget, or the time of NumPy's import on a slow machine."""
    ours = median_seconds("import graphmill")
    assert ours < BUDGET_SECONDS or ours < median_seconds("import numpy")


def test_import_needs_little_memory() -> None:
    """The process, including the interpreter, needs little memory after `import graphmill`."""
    peak = child("import graphmill")["peak"]
    if peak is None:
        pytest.skip("this system has no /proc")
    assert peak < BUDGET_BYTES


def median_seconds(statement: str) -> float:
    return statistics.median(child(statement)["seconds"] for _ in range(5))
