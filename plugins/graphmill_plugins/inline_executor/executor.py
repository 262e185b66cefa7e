"""`SingleThreadedExecutor`: run nodes one after the other in a precomputed order.

Semantics: `tensorflow/core/common_runtime/single_threaded_executor.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import OpError, UnimplementedError
from graphmill.spi import (
    DEAD,
    Executor,
    ExecutorFactory,
    OpKernelContext,
    as_status,
    check_output,
    check_outputs,
    checked_dtypes,
    read_refs,
    refs_to_read,
    step_cancelled,
    topological_order,
)
from graphmill.spi.executors import (
    call_and_wait,
    failure_at,
    now,
    record_node,
    sync_device,
)
from graphmill.spi.graphs import (
    is_argument,
    is_argument_or_result,
    is_loop_cond,
    is_receive,
    is_result,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import ExecutorArgs, Graph, LocalExecutorParams, Node, OpKernel
    from graphmill.spi.executors import DoneCallback


class Instruction:
    """One node in the fixed order.

    Attributes:
        node: the graph's node.
        kernel: its kernel; None for arguments and results.
        compute: the kernel's call.
        inputs: slots that it reads.
        output: slot of its first output; those of the other outputs follow.
        output_dtypes: the dtypes that its outputs must have; None where none is checked.
        ref_inputs: inputs that are references and must be read before the kernel is called.
        dies: slots that no later node reads.
        is_simple: whether it has one output and needs neither a context nor references.
    """

    __slots__ = (
        "compute",
        "dies",
        "index",
        "inputs",
        "is_simple",
        "kernel",
        "node",
        "num_outputs",
        "output",
        "output_dtypes",
        "ref_inputs",
    )

    def __init__(self, node: Node, output: int, inputs: tuple[int, ...]) -> None:
        self.node = node
        self.output = output
        self.inputs = inputs
        self.num_outputs = node.num_outputs
        self.dies: tuple[int, ...] = ()
        self.index: int = node.attrs["index"] if is_argument_or_result(node) else -1
        self.ref_inputs = refs_to_read(node)
        self.output_dtypes = checked_dtypes(node)
        self.kernel: OpKernel | None = None
        self.compute: Callable[..., Any] | None = None
        self.is_simple = False

    def set_kernel(self, kernel: OpKernel) -> None:
        """Set the node's kernel."""
        self.kernel = kernel
        self.compute = kernel.compute
        self.is_simple = not (
            kernel.definition.stateful or self.ref_inputs or kernel.gives_dead
        ) and (self.num_outputs == 1)


class SingleThreadedExecutor(Executor):
    """Runs nodes in topological order; values live in slots until their last use.

    Threads: immutable after construction, so any number of runs may overlap.
    """

    honours_deadlines = True

    def __init__(self, params: LocalExecutorParams, graph: Graph) -> None:
        self.params = params
        self.args: list[Instruction] = []
        self.body: list[Instruction] = []
        self.num_slots = 0
        slots: dict[tuple[Node, int], int] = {}
        for node in topological_order(graph):
            inputs = tuple(slots[edge.src, edge.src_output] for edge in node.in_edges)
            instruction = Instruction(node, self.num_slots, inputs)
            for output in range(node.num_outputs):
                slots[node, output] = self.num_slots + output
            self.num_slots += node.num_outputs
            if is_argument(node):
                self.args.append(instruction)
                continue
            if not is_result(node):
                instruction.set_kernel(params.create_kernel(node))
            self.body.append(instruction)
        _note_last_uses(self.body)

    def run_async(self, args: ExecutorArgs, done: DoneCallback) -> None:
        """Run to the end in the caller's thread; `done` is called before this returns."""
        try:
            self.run(args)
        except OpError as error:
            done(error)
        else:
            done(None)

    def run(self, args: ExecutorArgs) -> None:
        """Run to the end in the caller's thread.

        Raises:
            OpError: the first error of the run.
        """
        slots: list[Any] = [None] * self.num_slots
        for argument in self.args:
            slots[argument.output] = args.call_frame.get_arg(argument.index)
        cancellation = args.parent_cancellation
        is_traced = args.stats_collector is not None
        instruction: Instruction | None = None
        inputs: list[Any] = []
        try:
            for instruction in self.body:
                if cancellation is not None and cancellation.is_cancelled:
                    raise step_cancelled(args.cancel_reason())
                inputs = [slots[slot] for slot in instruction.inputs]
                for slot in instruction.dies:
                    slots[slot] = None
                if instruction.is_simple and not is_traced:
                    result = instruction.compute(*inputs)  # type: ignore[misc]
                    dtype = instruction.output_dtypes[0]
                    if dtype is not None and getattr(result, "dtype", None) is not dtype:
                        check_output(instruction.kernel, 0, result, dtype)  # type: ignore[arg-type]
                    slots[instruction.output] = result
                else:
                    self._run_special(instruction, inputs, slots, args)
        except Exception as error:
            status = self._error_at(instruction, error, args, inputs)
            if status is error:
                raise
            raise status from error
        if args.sync_on_finish:
            sync_device(self.params.device)

    def close(self) -> None:
        """Release the kernels."""
        delete = self.params.delete_kernel
        if delete is not None:
            for instruction in self.body:
                if instruction.kernel is not None:
                    delete(instruction.kernel)

    def _error_at(
        self,
        instruction: Instruction | None,
        error: Exception,
        args: ExecutorArgs,
        inputs: list[Any],
    ) -> OpError:
        if instruction is None:
            return as_status(error, None)
        return failure_at(
            error,
            instruction.node,
            instruction.kernel,
            device=self.params.device.name,
            reason=args.cancel_reason(),
            inputs=inputs,
        )

    def _run_special(
        self, instruction: Instruction, inputs: list[Any], slots: list[Any], args: ExecutorArgs
    ) -> None:
        if instruction.ref_inputs:
            read_refs(instruction.node, instruction.ref_inputs, inputs)
        kernel = instruction.kernel
        if kernel is None:
            args.call_frame.retvals[instruction.index] = inputs[0]
            return
        if kernel.definition.stateful:
            inputs.insert(0, OpKernelContext(args, kernel))
        started = now() if args.stats_collector is not None else 0
        if kernel.definition.async_:
            result = call_and_wait(kernel, inputs, args)
        elif args.stats_collector is not None:
            from graphmill.spi.executors import activity  # few runs are traced

            with activity(instruction.node, args.step_id, self.params.device.name):
                result = kernel.compute(*inputs)
        else:
            result = kernel.compute(*inputs)
        if args.stats_collector is not None:
            record_node(
                args.stats_collector,
                self.params.device.name,
                instruction.node,
                started,
                result,
                iteration=args.iteration,
            )
        start, count = instruction.output, instruction.num_outputs
        outputs = (result,) if count == 1 else result
        check_outputs(kernel, instruction.output_dtypes, outputs)
        if kernel.gives_dead and count:
            _refuse_dead(outputs)
        if count == 1:
            slots[start] = result
        elif count:
            slots[start : start + count] = result


class SingleThreadedExecutorFactory(ExecutorFactory):
    """Makes `SingleThreadedExecutor`s; registered as `"SINGLE_THREADED_EXECUTOR"` (clause E1)."""

    observes_kernels = False

    def new_executor(self, params: LocalExecutorParams, graph: Graph) -> Executor:
        """Return an executor of `graph`.

        Raises:
            UnimplementedError: the graph contains v1 control flow, or sends and receives.
        """
        control_flow = [node for node in graph.nodes if _needs_frames(node)]
        if control_flow:
            raise UnimplementedError(
                "SINGLE_THREADED_EXECUTOR does not support control flow of version 1; "
                f"{control_flow[0].name!r} is a {control_flow[0].op}. "
                "Choose executor_type DEFAULT or INLINE",
                node=control_flow[0].name,
                op_type=control_flow[0].op,
            )
        transfer = [node for node in graph.nodes if is_receive(node)]
        if transfer:
            raise UnimplementedError(
                "SINGLE_THREADED_EXECUTOR never blocks, so it cannot receive from another "
                f"device ({transfer[0].name!r}). Choose executor_type DEFAULT or INLINE",
                node=transfer[0].name,
                op_type=transfer[0].op,
            )
        return SingleThreadedExecutor(params, graph)


def _needs_frames(node: Node) -> bool:
    """Return whether a node makes outputs dead, or enters or leaves a frame."""
    return node.op_def.traits.is_control_flow and not is_loop_cond(node)


def _note_last_uses(body: list[Instruction]) -> None:
    alive: set[int] = set()
    for instruction in reversed(body):
        instruction.dies = tuple(slot for slot in set(instruction.inputs) if slot not in alive)
        alive.update(instruction.inputs)


def _refuse_dead(outputs: Sequence[Any]) -> None:
    """Raise if an output is dead, which this executor does not support.

    Raises:
        UnimplementedError: an output is dead.
    """
    if any(value is DEAD for value in outputs):
        raise UnimplementedError(
            "SINGLE_THREADED_EXECUTOR does not support dead outputs, which this node produced. "
            "Choose executor_type DEFAULT or INLINE"
        )
