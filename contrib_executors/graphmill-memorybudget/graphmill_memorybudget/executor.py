"""`MemoryBudgetFactory`: the DEFAULT executor with kernels that reserve memory first."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from graphmill.spi import (
    ControlFlow,
    Executor,
    ExecutorFactory,
    OpKernel,
    errors,
    plugin_settings,
)
from graphmill.spi.executors import WrappingExecutor, executor_over, outcome_of
from graphmill.spi.graphs import is_constant
from graphmill_memorybudget.budget import Budget, Waiter, size_of

if TYPE_CHECKING:
    from graphmill.spi import ExecutorArgs, Graph, LocalExecutorParams, Node

_UNLIMITED: Final = 1 << 62
_MAX_CACHED_SIZES: Final = 64


class MemoryBudgetFactory(ExecutorFactory):
    """Creates executors with a memory budget; registered as `"MEMORY_BUDGET"`.

    The setting `bytes` under the name "memory_budget" (`custom_optimizers` of the session's
    configuration) is the budget of each device of the session; by default there is no limit.
    """

    def new_executor(self, params: LocalExecutorParams, graph: Graph) -> Executor:
        """Return an executor of `graph`.

        Raises:
            InvalidArgumentError: the budget is not a positive number.
        """
        limit = plugin_settings(params.config, "memory_budget").get("bytes", _UNLIMITED)
        if not isinstance(limit, int) or limit <= 0:
            raise errors.InvalidArgumentError(f"memory_budget: bytes must be above 0, not {limit}")
        budget = budget_of(params.device, limit)

        def wrap(node: Node, kernel: OpKernel) -> OpKernel:
            declared = kernel.definition
            if _makes_no_array(node) or declared.stateful or not node.num_outputs:
                return kernel
            budgeted = _BudgetedKernel(kernel, budget, params.device.name)
            return kernel.with_call(budgeted, stateful=True, async_=True)

        return _BudgetExecutor(executor_over(params, graph, wrap), budget)


def _makes_no_array(node: Node) -> bool:
    """Return whether a node allocates no array or is control flow."""
    traits = node.op_def.traits
    is_flow = traits.control_flow is not ControlFlow.NONE
    is_free = traits.forwards or traits.reshapes or traits.shape_only
    return is_flow or is_free or is_constant(node)


def budget_of(device: Any, limit: int) -> Budget:
    """Return the budget of a session's device; create it at the first call."""
    manager = device.resource_mgr
    budget: Budget = manager.lookup_or_create(
        "graphmill_memorybudget", "budget", Budget, lambda: Budget(limit)
    )
    return budget


class _BudgetExecutor(WrappingExecutor):
    def __init__(self, inner: Executor, budget: Budget) -> None:
        super().__init__(inner)
        self._budget = budget

    def begin(self, args: ExecutorArgs) -> None:
        self._budget.begin(args.step_id)

    def end(self, args: ExecutorArgs) -> None:
        self._budget.end(args.step_id)


class _BudgetedKernel:
    """The call of one kernel, which reserves memory first."""

    def __init__(self, kernel: OpKernel, budget: Budget, device: str) -> None:
        self._kernel = kernel
        self._budget = budget
        self._device = device
        self._measured: dict[int, int] = {}  # bytes allocated, by the size of the inputs

    def __call__(self, ctx: Any, *inputs: Any, done: Any) -> None:
        budget, runner = self._budget, ctx.args.runner
        input_bytes = size_of(inputs)
        is_measured = input_bytes in self._measured
        need = self._measured.get(input_bytes, input_bytes)
        token: list[int | None] = [None]

        def start() -> None:
            ctx.cancellation.deregister(token[0])
            self._compute(waiter, inputs, done)

        def refuse() -> None:
            error = errors.ResourceExhaustedError(
                f"{need} bytes were requested, {budget.held} of the budget of {budget.limit} are "
                f"in use on {self._device}, and every step waits for memory; give memory_budget "
                "more bytes, or run fewer steps at once"
            )
            waiter.forget()
            runner.post(partial(done, error=error))

        waiter = Waiter(ctx.step_id, need, is_measured, partial(runner.post, start), refuse)
        if budget.admit(waiter):
            self._compute(waiter, inputs, done)
            return
        budget.watch(ctx.step_id, runner)

        def cancelled() -> None:
            if budget.withdraw(waiter):
                waiter.forget()
                done(error=errors.CancelledError("cancelled while waiting for memory"))

        token[0] = ctx.cancellation.register(cancelled)
        if token[0] is None:
            cancelled()

    def _compute(self, waiter: Waiter, inputs: Any, done: Any) -> None:
        results, error = outcome_of(self._kernel.compute, *inputs)
        allocated = self._budget.finish(waiter, results)
        if error is None:
            if len(self._measured) >= _MAX_CACHED_SIZES:
                self._measured.clear()
            self._measured[size_of(inputs)] = allocated
        done(results, error)
