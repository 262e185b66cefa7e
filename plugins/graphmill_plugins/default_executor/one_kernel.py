"""`OneKernel`: the run of a graph that is one kernel between its arguments and its results.

What a compiler makes of a whole graph is of this kind, and so is a graph of one node. Nothing has
to be found ready, so nothing is kept for a run: that takes a third off what such a step costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.spi import OpKernelContext, check_output, check_outputs, step_cancelled

if TYPE_CHECKING:
    from graphmill.errors import OpError
    from graphmill.spi import ExecutorArgs
    from graphmill_plugins.default_executor.graph_view import GraphView, NodeItem


class OneKernel:
    """The one kernel of a graph, and where its inputs come from and its outputs go to.

    Threads: immutable, so any number of runs may overlap.

    Args:
        item: the kernel's node.
        inputs: its inputs that are the same in all runs; None in place of the others.
        given: (input, number of the argument) of those.
        results: (number of the result, output).

    Attributes:
        item: the kernel's node.
    """

    __slots__ = ("_compute", "_given", "_inputs", "_results", "item")

    def __init__(
        self,
        item: NodeItem,
        inputs: list[Any],
        given: list[tuple[int, int]],
        results: list[tuple[int, int]],
    ) -> None:
        self.item = item
        self._compute = item.compute
        self._inputs = inputs
        self._given = given
        self._results = results

    def run(self, args: ExecutorArgs) -> OpError | None:
        """Call the kernel and set the results; return why the step was cancelled, or None.

        Raises:
            Exception: what the kernel raised, or is to be said of what it returned.
        """
        cancellation = args.parent_cancellation
        if cancellation is not None and cancellation.is_cancelled:
            return step_cancelled(args.cancel_reason())
        item, frame = self.item, args.call_frame
        taken = self._inputs.copy()
        for position, index in self._given:
            taken[position] = frame.get_arg(index)
        if item.takes_context:
            result = self._compute(OpKernelContext(args, item.kernel), *taken)  # type: ignore[misc,arg-type]
        else:
            result = self._compute(*taken)  # type: ignore[misc]
        retvals = frame.retvals
        if item.num_outputs == 1:
            dtype = item.output_dtype
            if dtype is not None and getattr(result, "dtype", None) is not dtype:
                check_output(item.kernel, 0, result, dtype)  # type: ignore[arg-type]
            for number, _ in self._results:
                retvals[number] = result
        else:
            if not item.forwards:
                check_outputs(item.kernel, item.output_dtypes, result)  # type: ignore[arg-type]
            for number, output in self._results:
                retvals[number] = result[output]
        return None


def one_kernel(view: GraphView) -> OneKernel | None:
    """Return the one kernel of a graph; None if it has none, or more, or one that may wait."""
    kernels = [item for item in view.items if not _is_none(item)]
    if view.has_control_flow or len(kernels) != 1:
        return None
    (item,) = kernels
    if item.is_async or item.is_transfer or item.ref_inputs or not item.num_outputs:
        return None
    indices = {arg.node: arg.index for arg in view.args}
    given = [
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
    return OneKernel(item, view.root_frame.initial_inputs[item.inputs], given, results)


def _is_none(item: NodeItem) -> bool:
    """Return whether a node is no kernel that has to be called."""
    return bool(item.is_arg or item.is_retval or item.is_constant)
