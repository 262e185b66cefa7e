"""Run a graph that consists of one kernel between arguments and results.

A graph that was compiled as a whole has this form, and so has a graph of one node. It needs neither
a ready queue nor a run state, which makes such a step a third cheaper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.spi import OpKernelContext, check_output, check_outputs, step_cancelled
from graphmill_plugins.default_executor.executor_state import error_at

if TYPE_CHECKING:
    from graphmill.errors import OpError
    from graphmill.spi import ExecutorArgs
    from graphmill_plugins.default_executor.graph_view import GraphView, NodeItem


class SingleKernel:
    """The only kernel of a graph, with the sources of its inputs and the targets of its outputs.

    Threads: immutable, so any number of runs may overlap.

    Args:
        item: the kernel's node.
        inputs: its inputs: the values of constants, None for the others.
        fed: (input, index of the argument) for each input that is not constant.
        results: (index of the result, output) for each result.
        device: name of the device.

    Attributes:
        item: the kernel's node.
    """

    __slots__ = ("_compute", "_device", "_fed", "_inputs", "_results", "item")

    def __init__(
        self,
        item: NodeItem,
        inputs: list[Any],
        fed: list[tuple[int, int]],
        results: list[tuple[int, int]],
        device: str,
    ) -> None:
        self.item = item
        self._device = device
        self._compute = item.compute
        self._inputs = inputs
        self._fed = fed
        self._results = results

    def run(self, args: ExecutorArgs) -> OpError | None:
        """Call the kernel and set the results; return why the step failed, or None.

        Raises:
            Exception: what a check of the results raised.
        """
        cancellation = args.parent_cancellation
        if cancellation is not None and cancellation.is_cancelled:
            return step_cancelled(args.cancel_reason())
        item, frame = self.item, args.call_frame
        inputs = self._inputs.copy()
        for position, index in self._fed:
            inputs[position] = frame.get_arg(index)
        try:
            if item.takes_context:
                result = self._compute(OpKernelContext(args, item.kernel), *inputs)  # type: ignore[misc,arg-type]
            else:
                result = self._compute(*inputs)  # type: ignore[misc]
        except Exception as error:  # noqa: BLE001 - the border to plugins' code: all becomes typed
            return error_at(args, self._device, item, "", error, inputs)
        retvals = frame.retvals
        if item.num_outputs == 1:
            dtype = item.output_dtype
            if dtype is not None and getattr(result, "dtype", None) is not dtype:
                check_output(item.kernel, 0, result, dtype)  # type: ignore[arg-type]
            for index, _ in self._results:
                retvals[index] = result
        else:
            if not item.forwards:
                check_outputs(item.kernel, item.output_dtypes, result)  # type: ignore[arg-type]
            for index, output in self._results:
                retvals[index] = result[output]
        return None


def single_kernel(view: GraphView, device: str) -> SingleKernel | None:
    """Return the only kernel of a graph; None if it has none or several, or one that may block.

    Args:
        view: the graph.
        device: name of its device.
    """
    kernels = [item for item in view.items if not _needs_no_call(item)]
    if view.has_control_flow or len(kernels) != 1:
        return None
    (item,) = kernels
    if item.is_async or item.is_transfer or item.ref_inputs or not item.num_outputs:
        return None
    indices = {arg.node: arg.index for arg in view.args}
    fed = [
        (position, indices[edge.src])
        for position, edge in enumerate(item.node.in_edges)
        if edge.src in indices
    ]
    results = []
    for retval in view.items:
        if retval.is_retval:
            edge = retval.node.in_edges[0]
            if edge.src is not item.node or retval.ref_inputs:
                return None
            results.append((retval.index, edge.src_output))
    return SingleKernel(item, view.root_frame.initial_inputs[item.inputs], fed, results, device)


def _needs_no_call(item: NodeItem) -> bool:
    """Return whether a node has no kernel to call: arguments, results and constants."""
    return bool(item.is_arg or item.is_retval or item.is_constant)
