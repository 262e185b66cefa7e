"""Export graphs as StableHLO: text, and the portable artifact of `jax.export`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphmill.spi import files
from graphmill_plugins.jit.export.jax_function import JaxFunction
from graphmill_plugins.jit.export.program import exported_program, serialized

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.spi.compilers import ExportGraph


@dataclass(frozen=True, slots=True)
class StableHlo:
    """A program with its variables as constants.

    Attributes:
        text: the program as text.
        artifact: its serialized form, for `jax.export.deserialize`; the program takes the inputs
            by position and returns the outputs as a tuple.
        inputs: the names of the inputs in their order.
        outputs: the names of the outputs in their order.
    """

    text: str = field(repr=False)
    artifact: bytes = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def save(self, folder: str) -> list[str]:
        """Write `program.mlir` and `program.jax` to a folder, and return their paths.

        Raises:
            OpError: a file cannot be written; those of an earlier program stay as they are.
        """
        contents = {"program.mlir": self.text.encode(), "program.jax": self.artifact}
        return files.write_together({files.join(folder, n): c for n, c in contents.items()})


def to_stablehlo(
    graph: ExportGraph,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    platforms: Sequence[str] = ("cpu",),
    max_iterations: int | None = None,
) -> StableHlo:
    """Return a graph as a StableHLO program (the exporter `stablehlo`).

    Args:
        graph: the graph, which is changed.
        shapes: the shape of each input whose own is not fully known.
        platforms: the platforms that the artifact can run on: `cpu`, `cuda`, `rocm`, `tpu`.
        max_iterations: see `JaxFunction`.

    Raises:
        InvalidArgumentError: a shape is missing, or does not fit the input.
        UnimplementedError: nodes cannot be held.
    """
    function = JaxFunction(graph, max_iterations=max_iterations)
    names = [port.name for port in graph.inputs]

    def program(*values: Any) -> tuple[Any, ...]:
        outputs = function(function.params, dict(zip(names, values, strict=True)))
        return tuple(outputs[name] for name in graph.outputs)

    exported = exported_program(program, function.shapes(shapes), platforms)
    return StableHlo(exported.mlir_module(), serialized(exported), tuple(names), graph.outputs)
