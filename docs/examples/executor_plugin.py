"""An executor that runs the nodes sequentially in a fixed order."""

from __future__ import annotations

from graphmill.spi import (
    Executor,
    ExecutorFactory,
    OpKernelContext,
    errors,
    hookimpl,
    topological_order,
)


class SequentialExecutor(Executor):
    def __init__(self, params, graph):
        self.order = topological_order(graph)
        inner = [node for node in self.order if node.op not in ("_Arg", "_Retval")]
        self.kernels = {node: params.create_kernel(node) for node in inner}

    def run_async(self, args, done):
        try:
            values = {}
            for node in self.order:
                inputs = [values[edge.src][edge.src_output] for edge in node.in_edges]
                values[node] = self.compute(node, inputs, args)
        except errors.OpError as error:
            done(error.locate(node=node.name, op_type=node.op))
        else:
            done(None)

    def compute(self, node, inputs, args):
        if node.op == "_Arg":
            return [args.call_frame.get_arg(node.attrs["index"])]
        if node.op == "_Retval":
            args.call_frame.set_retval(node.attrs["index"], inputs[0])
            return []
        kernel = self.kernels[node]
        if kernel.definition.stateful:
            inputs = [OpKernelContext(args, kernel), *inputs]
        result = kernel.compute(*inputs)
        return [result] if node.num_outputs == 1 else result


class SequentialExecutorFactory(ExecutorFactory):
    def new_executor(self, params, graph):
        return SequentialExecutor(params, graph)


@hookimpl
def graphmill_register_executors(executors):
    executors.add("SEQUENTIAL", SequentialExecutorFactory)
