"""`JaxFunction`: a graph as a pure JAX function of its variables and inputs."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import numpy as np

from graphmill.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    UnimplementedError,
    suggest,
)
from graphmill.spi import Source, TensorShape, files
from graphmill.spi.graphs import is_result
from graphmill.spi.passes import EffectsPolicy
from graphmill_plugins._constants import marking
from graphmill_plugins._jax import jax_module, numpy_promotion
from graphmill_plugins.jit.export.coverage import all_nodes, refusals
from graphmill_plugins.jit.export.input_shapes import input_shape
from graphmill_plugins.jit.export.merged_references import bypass_merged_references
from graphmill_plugins.jit.export.program import exported_program, serialized
from graphmill_plugins.jit.functionalize import functionalize
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies
from graphmill_plugins.jit.ir.traced_variable import TracedVariable
from graphmill_plugins.jit.tracing.pytrees import register_pytrees
from graphmill_plugins.jit.tracing.scanned_loops import ScannedLoops
from graphmill_plugins.jit.tracing.static_values import GUARD, is_static
from graphmill_plugins.jit.tracing.trace import Tracer
from graphmill_plugins.jit.tracing.values import is_array_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.spi import Node
    from graphmill.spi.compilers import ExportGraph

    Arrays = Mapping[str, Any]
    Shapes = Mapping[str, Sequence[int]]


class JaxFunction:
    """A pure function of the variables and inputs of a graph.

        function = graphmill.export.convert(session, "jax", {"x": x}, {"y": y})
        y = jax.jit(function)(function.params, {"x": pixels})["y"]

    `jax.jit`, `jax.grad`, `jax.vmap` and the like work on it. Graphs have 64-bit integers, so
    use it in JAX's 64-bit mode: `with jax.enable_x64(True)`. Loops with a static bound
    are scans, which have gradients; for others pass `max_iterations`.

    Attributes:
        params: the values of the variables when the graph was exported, by name.
        inputs: the inputs, with their element types and shapes.
        outputs: the names of the outputs.
    """

    def __init__(self, graph: ExportGraph, *, max_iterations: int | None = None) -> None:
        """Prepare a graph.

        Args:
            graph: the graph, which is changed.
            max_iterations: a bound for loops whose trip count is unknown; they stop after so many
                iterations, and then `checked` says so.

        Raises:
            UnimplementedError: nodes cannot be traced; the message lists all of them.
        """
        self.inputs = graph.inputs
        self.outputs = graph.outputs
        self._max_iterations = max_iterations
        bypass_merged_references(graph.body.graph, graph.host)
        results = list(filter(is_result, graph.body.graph.nodes))
        records = functionalize(graph.body.graph, lambda _: None, results, host=graph.host)
        self._bodies = ScheduledBodies(graph.body, graph.host, EffectsPolicy())
        reasons = refusals(self._bodies, records, set(graph.variable_nodes))
        if reasons:
            listed = "\n".join(f"  {reason}" for reason in reasons)
            counted = "1 node" if len(reasons) == 1 else f"{len(reasons)} nodes"
            raise UnimplementedError(f"JAX cannot compute {counted}:\n{listed}")
        self._handles = _traced_variables(graph, self._bodies)
        jax = jax_module()
        with jax.enable_x64(True):
            self.params: dict[str, Any] = {
                name: jax.numpy.asarray(value) for name, value in graph.variables.items()
            }

    def __repr__(self) -> str:
        inputs = ", ".join(
            f"{each.name!r}: {each.dtype.name} {TensorShape(each.shape)}" for each in self.inputs
        )
        outputs = ", ".join(map(repr, self.outputs))
        return (
            f"<JaxFunction of {len(self.params)} params and {{{inputs}}}, "
            f"with the outputs {outputs}>"
        )

    def __call__(self, params: Arrays, inputs: Arrays) -> dict[str, Any]:
        """Return the outputs by name.

        Args:
            params: values of the variables by name, such as `self.params`.
            inputs: values of the inputs by name.

        Raises:
            InvalidArgumentError: a variable or input is missing or unknown.
            FailedPreconditionError: JAX is not in 64-bit mode.
            UnimplementedError: a node cannot be traced with inputs of these shapes.
        """
        return self._run(params, inputs)[0]

    def update(self, params: Arrays, inputs: Arrays) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the outputs, and the values of all variables after the step."""
        outputs, variables, _ = self._run(params, inputs)
        return outputs, variables

    def checked(self, params: Arrays, inputs: Arrays) -> tuple[dict[str, Any], Any]:
        """Return the outputs, and whether they are those of the interpreter, as a bool.

        They are not if the interpreter would raise an error, as for an index out of range, or if
        a loop needs more than `max_iterations`.
        """
        outputs, _, holds = self._run(params, inputs)
        return outputs, holds

    def save(
        self, folder: str, *, shapes: Shapes | None = None, platforms: Sequence[str] = ("cpu",)
    ) -> list[str]:
        """Write `function.jax` and `variables.npz` to a folder, and return their paths.

        `jax.export.deserialize` makes a function of the variables and inputs, both as dicts, from
        the content of the first; it can be differentiated once.

        Args:
            folder: the folder, which is created if it is missing.
            shapes: the shape of each input whose own is not fully known.
            platforms: the platforms it can run on: `cpu`, `cuda`, `rocm`, `tpu`.

        Raises:
            InvalidArgumentError: a shape is missing, or does not fit the input.
            UnimplementedError: JAX cannot export the function.
            OpError: a file cannot be written; those of an earlier function stay as they are.
        """
        inputs = dict(zip([port.name for port in self.inputs], self.shapes(shapes), strict=True))
        exported = exported_program(self.__call__, [self.params, inputs], platforms)
        content = io.BytesIO()
        with ZipFile(content, "w") as archive:  # np.savez takes no arrays of some names
            for name, value in self.params.items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, np.asarray(value), allow_pickle=False)
        contents = {
            "function.jax": serialized(exported, vjp_order=1),
            "variables.npz": content.getvalue(),
        }
        return files.write_together({files.join(folder, n): c for n, c in contents.items()})

    def shapes(self, chosen: Shapes | None = None) -> list[Any]:
        """Return the shape and dtype of each input.

        Args:
            chosen: the shape of each input whose own is not fully known.

        Raises:
            InvalidArgumentError: a shape is missing, or does not fit the input.
        """
        named = dict(chosen or {})
        for name in sorted(named.keys() - {port.name for port in self.inputs}):
            raise InvalidArgumentError(f"a shape is given, but there is no input {name!r}")
        struct = jax_module().ShapeDtypeStruct
        return [
            struct(input_shape(port, named.get(port.name)), port.dtype.as_numpy_dtype)
            for port in self.inputs
        ]

    def _run(self, params: Arrays, inputs: Arrays) -> tuple[dict[str, Any], dict[str, Any], Any]:
        _check_names("variables", params, self.params)
        _check_names("inputs", inputs, {port.name: port for port in self.inputs})
        numpy = jax_module().numpy
        _require_64_bits()
        state: dict[Any, Any] = {GUARD: np.bool_(True)}
        for handle in self._handles.values():
            state[handle] = numpy.asarray(params[handle.name])
        args = [numpy.asarray(inputs[port.name], port.dtype.as_numpy_dtype) for port in self.inputs]
        results, after = self._trace(args, state)
        values = {**params, **{one.name: after[one] for one in self._handles.values()}}
        holds = numpy.asarray(after[GUARD])
        return dict(zip(self.outputs, results, strict=True)), values, holds

    def _trace(self, args: list[Any], state: dict[Any, Any]) -> tuple[list[Any], Any]:
        register_pytrees()
        jax = jax_module()
        loops = ScannedLoops(self._max_iterations)
        try:
            with marking() as marks, numpy_promotion():
                tracer = Tracer(self._bodies, {}, self._handles, marks, loops)
                results, after = tracer.run(self._bodies.main, list(args), state)
        except NotTraceable as error:
            raise UnimplementedError(f"JAX cannot compute this graph: {error}") from error
        for name, value in zip(self.outputs, results, strict=True):
            if not is_array_value(value) and not is_static(value):
                raise UnimplementedError(
                    f"JAX cannot return output {name!r}, which is a {type(value).__name__}"
                )
        return [jax.numpy.asarray(value) for value in results], after


def to_jax(graph: ExportGraph, *, max_iterations: int | None = None) -> JaxFunction:
    """Return a graph as a JAX function (the exporter `jax`)."""
    return JaxFunction(graph, max_iterations=max_iterations)


def _traced_variables(graph: ExportGraph, bodies: ScheduledBodies) -> dict[Node, TracedVariable]:
    """Return the variable of each node that names one, also within functions.

    The functions of loops and conditionals have copies of the nodes of reference variables; a copy
    has the name of its original, which is that of the variable.
    """
    slots = {name: slot for slot, name in enumerate(graph.variables)}
    names = dict(graph.variable_nodes)
    of_originals = {node.name: name for node, name in names.items()}
    for node in all_nodes(bodies):
        if node.op_def.traits.source is Source.VARIABLE and node.name in of_originals:
            names.setdefault(node, of_originals[node.name])
    return {
        node: TracedVariable(slots[name], node.output_types[0].is_ref, name)
        for node, name in names.items()
    }


def _require_64_bits() -> None:
    if not jax_module().config.jax_enable_x64:
        error = FailedPreconditionError(
            "the graph has 64-bit numbers, which JAX supports only in its 64-bit mode"
        )
        error.add_note("try: call the function inside `with jax.enable_x64(True):`")
        raise error


def _check_names(kind: str, values: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    faults = [f"unknown: {name!r}{suggest(name, expected)}" for name in values.keys() - expected]
    faults += [f"missing: {name!r}" for name in expected.keys() - values.keys()]
    if faults:
        raise InvalidArgumentError(f"wrong {kind}: {'; '.join(sorted(faults))}")
