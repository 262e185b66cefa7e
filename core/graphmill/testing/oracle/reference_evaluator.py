"""Evaluate a GraphDef naively, as the reference for executors.

Nodes run one after the other in topological order, on NumPy. No code is shared with executors,
graph import or pruning, so a difference points to a fault in one of these. Loops, branches and dead
tensors are evaluated on demand (`reference_frames`). Function calls are not supported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError, NotFoundError
from graphmill.ops.attrs.attr_value import attrs_from_proto
from graphmill.ops.definition.op_traits import ControlFlow
from graphmill.runtime.devices.device import Device, DeviceAttributes
from graphmill.runtime.executor import ExecutorArgs
from graphmill.runtime.kernels.op_kernel import OpKernel, OpKernelConstruction, bind
from graphmill.runtime.kernels.op_kernel_context import OpKernelContext
from graphmill.runtime.resources.variables import Ref
from graphmill.runtime.steps.call_frame import CallFrame
from graphmill.testing.oracle.reference_frames import EVALUATED, FramesReference
from graphmill.testing.oracle.reference_frames import split_tensor as _split

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphmill.ops.definition.op_def import OpDef
    from graphmill.plugin.host import Host
    from graphmill.typing import ArrayNamespace, Value


class ReferenceSession:
    """Evaluate fetches of one graph, step by step; variables live as long as this object.

    Args:
        graph_def: the graph.
        host: supplies ops and kernels.
    """

    def __init__(self, graph_def: Any, host: Host) -> None:
        self._host = host
        self._nodes: dict[str, Any] = {node.name: node for node in graph_def.node}
        self._kernels: dict[str, tuple[OpKernel, OpDef, dict[str, Any]]] = {}
        self._device = _NumPyDevice()
        self._step = 0

    def run(self, fetches: Iterable[str], feeds: Mapping[str, Any] | None = None) -> list[Any]:
        """Return the values of tensors ("node:0") or nodes ("node"; None if it has no outputs).

        The value of a dead tensor is `DEAD`.

        Raises:
            InvalidArgumentError: the graph has a cycle that is not a loop.
            NotFoundError: the graph has no node of that name.
        """
        self._step += 1
        requested = [_split(name) for name in fetches]
        values = {_split(name): np.asarray(value) for name, value in (feeds or {}).items()}
        fed = {node for node, _ in values}
        order = self._order([node for node, _ in requested], fed)
        if any(self._role(name) in EVALUATED for name in order):
            frames = FramesReference(self._nodes, self._role, order, values, self._run_kernel)
            return [_read(frames.value(*key)) for key in requested]
        for name in order:
            sources = [_split(text) for text in self._nodes[name].input if text[0] != "^"]
            outputs = self._run_kernel(name, [values[source] for source in sources])
            for index, value in enumerate(outputs):
                values.setdefault((name, index), value)
        return [_read(values.get(key)) for key in requested]

    def _order(self, requested: Sequence[str], fed: set[str]) -> list[str]:
        """Return the nodes that must run, inputs first; uses a stack because graphs may be deep."""
        order: list[str] = []
        state: dict[str, int] = {}
        stack = list(reversed(requested))
        ends_of_loops: list[str] = []
        while stack or ends_of_loops:
            name = (stack or ends_of_loops).pop()
            if state.get(name) == 2 or name in fed:
                continue
            if state.get(name) == 1:
                state[name] = 2
                order.append(name)
                continue
            state[name] = 1
            stack.append(name)
            for source in self._inputs(name):
                if source in self._nodes and self._role(source) is ControlFlow.NEXT_ITERATION:
                    ends_of_loops.append(source)
                elif state.get(source) == 1:
                    raise InvalidArgumentError(f"The graph has a cycle through {source!r}")
                else:
                    stack.append(source)
        return order

    def _role(self, name: str) -> ControlFlow:
        """Return the role of a node in control flow."""
        return self._host.ops.get(self._nodes[name].op).traits.control_flow

    def _inputs(self, name: str) -> list[str]:
        if name not in self._nodes:
            raise NotFoundError(f"The graph has no node {name!r}")
        return [_split(text.removeprefix("^"))[0] for text in self._nodes[name].input]

    def _run_kernel(self, name: str, values: Sequence[Any]) -> list[Any]:
        kernel, op_def, attrs = self._kernel(name)
        expects_ref = [dtype.is_ref for dtype in op_def.input_types(attrs)]
        inputs = [
            value if is_ref else _read(value)
            for value, is_ref in zip(values, expects_ref, strict=True)
        ]
        if kernel.definition.stateful:
            inputs.insert(0, OpKernelContext(ExecutorArgs(self._step, CallFrame((), 0)), kernel))
        with np.errstate(all="ignore"):
            result = kernel.compute(*inputs)
        count = len(op_def.output_types(attrs))
        return [] if count == 0 else [result] if count == 1 else list(result)

    def _kernel(self, name: str) -> tuple[OpKernel, OpDef, dict[str, Any]]:
        kernel = self._kernels.get(name)
        if kernel is None:
            kernel = self._kernels[name] = self._make_kernel(self._nodes[name])
        return kernel

    def _make_kernel(self, node: Any) -> tuple[OpKernel, OpDef, dict[str, Any]]:
        op_def = self._host.ops.get(node.op)
        attrs = op_def.with_defaults(attrs_from_proto(node.attr))
        choice = self._host.kernels.find(op_def, attrs, "CPU", ("numpy",))
        construction = OpKernelConstruction(node.name, op_def, attrs, self._device, np)
        return bind(choice.definition, construction), op_def, attrs


class _NumPyDevice(Device):
    """The device of a reference session, which holds its variables."""

    def __init__(self) -> None:
        super().__init__(DeviceAttributes("/job:reference/replica:0/task:0/device:CPU:0", "CPU"))

    def namespace(self, backend: str) -> ArrayNamespace:  # noqa: ARG002 - there is one
        return np

    def to_device(self, value: Value) -> Value:
        return value

    def to_host(self, value: Value) -> Value:
        return value


def _read(value: Any) -> Any:
    return value.read() if isinstance(value, Ref) else value
