"""`KernelFactory`: chooses the kernels of all nodes on a device, and reports all missing ones."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill.errors import NotFoundError
from graphmill.graph.attrs_cache import AttrsCache
from graphmill.graph.node_roles import is_argument_or_result, is_constant, is_transfer
from graphmill.lowering.bind_node import bind_node
from graphmill.lowering.kernel_lookup import find_kernel
from graphmill.lowering.shape_sources import ShapeSources
from graphmill.runtime.checks.declaration_checks import validated
from graphmill.runtime.checks.validation import is_validation_on
from graphmill.runtime.kernels.kernel import KernelDef
from graphmill.runtime.kernels.kernel_errors import as_status, at_node
from graphmill.runtime.kernels.op_kernel import OpKernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.errors import OpError
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.lowering.functions.function_runtime import FunctionLibraryRuntime
    from graphmill.plugin.host import Host
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.kernels.kernel_choice import KernelChoice
    from graphmill.runtime.kernels.op_kernel_context import OpKernelContext
    from graphmill.runtime.kernels.op_segment import StatefulKernels
    from graphmill.typing import ArrayNamespace

_MAX_NAMED = 5


class _Bound(NamedTuple):
    """A bound kernel, for other nodes with the same op and attrs."""

    kernel: OpKernel
    compute: Callable[..., Any]  # its call before the device and validation wrapped it
    choice: KernelChoice


class KernelFactory:
    """Choose and create kernels for one executor.

    Args:
        host: the host that supplies the kernels.
        device: the device that runs them.
        functions: the function library runtime that they may call; it also has the session's
            effects policy.
        segment: the cache of stateful kernels by node name: the session's for this device, or the
            function's own for nodes of a function body.
        shapes: what is known about the shapes of the graph's arguments; by default nothing.
    """

    def __init__(
        self,
        host: Host,
        device: Device,
        functions: FunctionLibraryRuntime,
        segment: StatefulKernels,
        shapes: ShapeSources | None = None,
    ) -> None:
        self._host = host
        self._device = device
        self._functions = functions
        self._segment = segment
        self._choices: dict[Node, KernelChoice] = {}
        self._found: AttrsCache[KernelChoice] = AttrsCache()
        self._shared_kernels: AttrsCache[_Bound] = AttrsCache()
        self._shapes = shapes or ShapeSources()
        self._validates = is_validation_on()

    def choose_all(self, graph: Graph) -> None:
        """Look up the kernel of each node.

        Raises:
            NotFoundError: some nodes have no kernel; the message lists all of them, by op.
            PluginConflictError: two kernels match a node equally well.
        """
        missing: dict[str, list[tuple[Node, str]]] = {}
        for node in graph.nodes:
            choice = self._found.find(node)
            if choice is None:
                if is_argument_or_result(node) or node.op in graph.library:
                    continue
                try:
                    choice = self.choose(node)
                except NotFoundError as error:
                    missing.setdefault(node.op, []).append((node, error.message))
                    continue
            self._choices[node] = choice
        if missing:
            raise self._missing_error(missing)

    def choose(self, node: Node) -> KernelChoice:
        """Return the kernel for a node and the reason for the choice.

        Raises:
            NotFoundError: there is no kernel for it.
        """
        choice = self._found.find(node)
        if choice is None:
            choice = find_kernel(self._host.kernels, node, self._device)
            self._found.store(node, choice)
        return choice

    def create(self, node: Node) -> OpKernel:
        """Return the kernel of a node, created or found in the segment.

        Raises:
            PermissionDeniedError: it may have an effect that the session forbids.
            OpError: there is no kernel, or it rejects the node.
        """
        choice = self._choices.get(node)
        if choice is None:
            if node.op in node.graph.library:
                return self._call_of_function(node)
            choice = self.choose(node)
        # The policy permits more while a model is loaded, so check kernels of the segment again.
        self._functions.effects.check_node(node, choice.definition, self._device)
        is_cached = choice.definition.stateful and node.op_def.is_stateful
        if is_cached and not is_transfer(node):
            return self._segment.find_or_create(node.name, lambda: self._bind(node, choice))
        return self._bind(node, choice)

    def _bind(self, node: Node, choice: KernelChoice) -> OpKernel:
        functions = self._functions
        is_shared = self._is_shared(node, choice)
        shared = self._shared_kernels.find(node) if is_shared else None
        if shared is not None and shared.choice is choice:
            kernel = shared.kernel.for_node(node.name, shared.compute)
        else:
            kernel = self._bound(node, choice)
            if is_shared:
                self._shared_kernels.store(node, _Bound(kernel, kernel.compute, choice))
        kernel.functions = functions
        kernel.compute = self._device.compute_of(kernel)
        if self._validates:
            kernel.compute = validated(kernel, node)
        return kernel

    def _is_shared(self, node: Node, choice: KernelChoice) -> bool:
        """Return whether equal nodes may share the kernel's call."""
        if self._functions.effects.memory_limit or self._shapes.may_grow(node):
            return False  # the call names its node in errors
        keeps = is_constant(node) or node.op_def.is_stateful
        return choice.definition.is_shareable and not keeps

    def _bound(self, node: Node, choice: KernelChoice) -> OpKernel:
        functions, namespace = self._functions, self._namespace(choice)
        try:
            kernel = bind_node(
                node,
                choice,
                functions.effects,
                namespace,
                self._device,
                functions,
                self._segment,
                self._shapes,
            )
            if is_constant(node) and _has_device_value(choice.definition, self._device):
                _copy_to_device(kernel, self._device)
        except Exception as error:
            chosen = choice.definition
            unbound = OpKernel(chosen.function, chosen, node.name, node.op, owner=choice.owner)
            status = at_node(as_status(error, unbound), node, unbound, self._device.name)
            _log_failure(status)
            if status is error:
                raise
            raise status from error
        return kernel

    def _namespace(self, choice: KernelChoice) -> ArrayNamespace:
        # A host kernel computes with NumPy arrays, even on a device with its own memory.
        if choice.definition.host and not self._device.is_host_memory:
            return np
        declared = choice.definition.backend
        return self._device.namespace(declared or self._device.general_backend or choice.backend)

    def _call_of_function(self, node: Node) -> OpKernel:
        """Return a kernel that calls the library function that is the node's op."""
        count = len(node.output_types)

        def call(ctx: OpKernelContext, *inputs: Any, done: Callable[..., None]) -> None:
            handle = ctx.state.get("handle")
            if handle is None:
                handle = ctx.state["handle"] = ctx.functions.instantiate(node.op, node.attrs)

            def flat(outputs: Any = None, error: BaseException | None = None) -> None:
                done(outputs[0] if error is None and count == 1 else outputs, error)

            ctx.functions.run_async(handle, inputs, ctx, flat)

        definition = KernelDef(ops=(node.op,), function=call, stateful=True, async_=True)
        kernel = OpKernel(call, definition, node.name, node.op, self._device)
        kernel.functions = self._functions
        return kernel

    def _missing_error(self, missing: dict[str, list[tuple[Node, str]]]) -> NotFoundError:
        lines = []
        for op, reasons in sorted(missing.items()):
            names = _shortened(node.name for node, _ in reasons)
            node, reason = reasons[0]
            lines.append(f"  {op} (node {names}): {reason}{self._other_devices(node)}")
        count = f"{len(missing)} op{'s have' if len(missing) > 1 else ' has'}"
        failures = self._host.plugin_failures()
        if failures:
            lines.append(f"  plugins that failed to load: {'; '.join(failures)}")
        first = next(iter(missing.values()))[0][0]
        return NotFoundError(
            f"{count} no kernel on {self._device.name}:\n" + "\n".join(lines),
            node=first.name,
            op_type=first.op,
            device=self._device.name,
        )

    def _other_devices(self, node: Node) -> str:
        """Return a sentence about other device types that have a kernel for a node, or ""."""
        types: set[str] = set()
        for entry in self._host.kernels.registrations(node.op_def):
            types.update(entry.definition.device or ())
        types.discard(self._device.device_type)
        return f" It has kernels for device types {', '.join(sorted(types))}." if types else ""


def _has_device_value(definition: KernelDef, device: Device) -> bool:
    """Return whether the value of a constant belongs in the device's own memory."""
    stays_on_host = definition.stateful or definition.host or definition.host_memory
    return not (device.is_host_memory or stays_on_host)


def _copy_to_device(kernel: OpKernel, device: Device) -> None:
    """Copy a constant to its device once instead of in each step; strings stay in host memory."""
    value = kernel.compute()
    if not value.dtype.hasobject:
        value = device.to_device(value)
        kernel.compute = lambda: value


def _log_failure(error: OpError) -> None:
    """Log that a kernel could not be created, if logging is set up; the error is also raised."""
    # It is absent while another thread imports the module.
    get_logger = getattr(sys.modules.get("logging"), "getLogger", None)
    if get_logger is not None:
        logger = get_logger("graphmill.executor")
        if logger.hasHandlers():  # without any, Python would print the message
            logger.error("Executor failed to create kernel. %s", error)


def _shortened(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _MAX_NAMED} more" if len(listed) > _MAX_NAMED else ""
    return ", ".join(listed[:_MAX_NAMED]) + more
