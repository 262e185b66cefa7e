"""The built-in plugins import what every plugin may, and nothing else of graphmill's.

Read from the source by `ast`: imports inside functions and under `TYPE_CHECKING` count.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
OPS = ROOT / "core" / "graphmill" / "ops"
FILES = sorted((ROOT / "plugins").rglob("*.py"))

PUBLIC = ("graphmill.spi", "graphmill.errors", "graphmill.dtypes", "graphmill.__version__")

EXCEPTIONS: frozenset[str] = frozenset(
    {
        "graphmill.explain.compilation.COMPILED",
        "graphmill.explain.compilation.ClusterRecord",
        "graphmill.explain.compilation.CompileRecord",
        "graphmill.explain.compilation.SignatureRecord",
        "graphmill.files",
        "graphmill.files.append.Appender",
        "graphmill.files.as_path",
        "graphmill.files.join",
        "graphmill.files.read_bytes",
        "graphmill.files.stream.check_compression",
        "graphmill.files.stream.open_stream",
        "graphmill.files.stream.read_exactly",
        "graphmill.graph.algorithms.is_back_edge",
        "graphmill.graph.algorithms.topological_order",
        "graphmill.graph.frames.FramePath",
        "graphmill.graph.frames.analyse_frames",
        "graphmill.graph.frames.output_frame",
        "graphmill.graph.function_body.FunctionBody",
        "graphmill.graph.function_library.FunctionLibrary",
        "graphmill.graph.graph.Graph",
        "graphmill.graph.node.Edge",
        "graphmill.graph.node.Node",
        "graphmill.graph.node_roles.is_argument_or_result",
        "graphmill.graph.node_roles.is_control_trigger",
        "graphmill.graph.node_roles.is_enter",
        "graphmill.graph.node_roles.is_exit",
        "graphmill.graph.node_roles.is_merge",
        "graphmill.graph.node_roles.is_switch",
        "graphmill.graph.node_roles.is_transfer",
        "graphmill.lowering.effects_policy.EffectsPolicy",
        "graphmill.lowering.memory_types.MemoryTypeFinder",
        "graphmill.lowering.memory_types.ensure_memory_types",
        "graphmill.lowering.node_effects.effects_of_node",
        "graphmill.lowering.passes.PassOptions",
        "graphmill.ops.attr_types.FuncAttr",
        "graphmill.ops.effects.effects_of",
        "graphmill.ops.op_traits.CallKind",
        "graphmill.ops.op_traits.ControlFlow",
        "graphmill.ops.op_traits.Source",
        "graphmill.ops.tensor_proto.tensor_proto_to_numpy",
        "graphmill.plugin.host.Host",
        "graphmill.proto",
        "graphmill.proto.event_pb2.Event",
        "graphmill.proto.summary_pb2.Summary",
        "graphmill.proto.wire.LENGTH",
        "graphmill.proto.wire.VARINT",
        "graphmill.proto.wire.iterate_fields",
        "graphmill.proto.wire.length_delimited",
        "graphmill.proto.wire.write_varint",
        "graphmill.runtime.cancellation.CancellationManager",
        "graphmill.runtime.device.Device",
        "graphmill.runtime.device.DeviceAttributes",
        "graphmill.runtime.exclusive_update.acquire",
        "graphmill.runtime.exclusive_update.release",
        "graphmill.runtime.exclusive_update.set_value",
        "graphmill.runtime.executor.ExecutorArgs",
        "graphmill.runtime.kernel.OpKernel",
        "graphmill.runtime.kernel.OpKernelConstruction",
        "graphmill.runtime.kernel.kernel",
        "graphmill.runtime.op_kernel_context.OpKernelContext",
        "graphmill.runtime.state_machine.Label",
        "graphmill.runtime.step_container.StepContainer",
        "graphmill.runtime.step_runner.StepRunner",
        "graphmill.runtime.thread_pool.ThreadPool",
        "graphmill.runtime.validation.is_validation_on",
        "graphmill.runtime.variables.ResourceHandle",
        "graphmill.runtime.variables.Variable",
        "graphmill.saved.bundle_reader.BundleReader",
        "graphmill.saved.bundle_writer.BundleWriter",
        "graphmill.tf_record.frame",
        "graphmill.tf_record.read_record",
        "graphmill.typing.ArrayNamespace",
        "graphmill.typing.Shape",
        "graphmill.typing.Value",
    }
)
"""What built-ins import and other plugins may not. It only gets shorter: give what they need to
`graphmill.spi`, in a form that everybody can use, or move the code."""


def imports_of(source: str) -> Iterator[str]:
    """Return what a source text imports, `from a import b` as "a.b"."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_private(imported: str) -> bool:
    """Return whether something is graphmill's and not for plugins."""
    if imported.partition(".")[0] != "graphmill":
        return False
    if any(f"{imported}.".startswith(f"{public}.") for public in PUBLIC):
        return False
    family = imported.removeprefix("graphmill.ops.").partition(".")[0]
    return not (imported.startswith("graphmill.ops.") and (OPS / f"{family}.pyi").exists())


def test_builtins_import_what_every_plugin_may() -> None:
    found: dict[str, Path] = {}
    for file in FILES:
        for imported in filter(is_private, imports_of(file.read_text("utf-8"))):
            found.setdefault(imported, file.relative_to(ROOT))
    new = {name: file for name, file in found.items() if name not in EXCEPTIONS}
    assert new == {}, "import these from graphmill.spi"


def test_no_exception_is_left_over() -> None:
    used = {name for file in FILES for name in imports_of(file.read_text("utf-8"))}
    assert used >= EXCEPTIONS, "take these off the list"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from graphmill.spi import Node", []),
        ("from graphmill.spi.graphs import Tensor", []),
        ("from graphmill import dtypes, errors", []),
        ("from graphmill.errors import OpError\nimport numpy, graphmillion", []),
        ("from graphmill.ops import math, op_def", ["graphmill.ops.op_def"]),
        ("from graphmill.ops.math import exp", []),
        ("import graphmill", ["graphmill"]),
        ("def f():\n    from graphmill.graph.node import Node", ["graphmill.graph.node.Node"]),
        ("if TYPE_CHECKING:\n    import graphmill.graph", ["graphmill.graph"]),
        ("from graphmill.spi_version import VERSION", ["graphmill.spi_version.VERSION"]),
    ],
)
def test_how_imports_are_read(source: str, expected: list[str]) -> None:
    assert list(filter(is_private, imports_of(source))) == expected
