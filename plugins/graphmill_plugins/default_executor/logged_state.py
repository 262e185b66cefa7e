"""`LoggedState`: a run that logs its nodes and the memory of their outputs.

Executors that were built while the logs were on use it instead of `ExecutorState`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from graphmill.dtypes import DType
from graphmill.spi.executors import describe_outputs, output_record, step_record
from graphmill_plugins.default_executor.executor import MEMORY_LOGGER, NODE_LOGGER
from graphmill_plugins.default_executor.executor_state import WAITING, ExecutorState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.errors import OpError
    from graphmill.spi import Node
    from graphmill_plugins.default_executor.graph_view import NodeItem

_nodes: Final = logging.getLogger(NODE_LOGGER)
_memory: Final = logging.getLogger(MEMORY_LOGGER)
_MAX_ATTR: Final = 60  # characters; values of constants are longer


class LoggedState(ExecutorState):
    """One logged run of a graph; its nodes must not be plain, so that each call can be logged."""

    __slots__ = ()

    def start(self) -> None:
        """Run the graph until it is done or blocked."""
        if _is_on(_memory):
            _memory.debug("%s", step_record(self.args.step_id, self.args.session_handle))
        super().start()

    def _call(self, item: NodeItem, iteration: Any, inputs: list[Any]) -> Any:
        self._log("Process node", item)
        result = super()._call(item, iteration, inputs)
        if result is not WAITING:
            self._log("Synchronous kernel done", item)
            self._log_memory(item, result)
        return result

    def _posted(
        self, item: NodeItem, iteration: Any, outputs: Any, error: BaseException | None
    ) -> None:
        self._log("Async kernel done", item)
        if error is None:
            self._log_memory(item, outputs)
        super()._posted(item, iteration, outputs, error)

    def _error_at(
        self,
        item: NodeItem,
        iteration: Any,
        error: BaseException,
        inputs: Sequence[Any] | None = None,
    ) -> OpError:
        status = super()._error_at(item, iteration, error, inputs)
        if _is_on(_nodes):
            _nodes.debug("[%s] Executor start aborting: %s", self.device_name, status)
        return status

    def _log(self, event: str, item: NodeItem) -> None:
        if _is_on(_nodes):
            node = summary(item.node)
            step, device = self.args.step_id, self.device_name
            _nodes.debug("%s: %d step %d %s device: %s", event, item.id, step, node, device)

    def _log_memory(self, item: NodeItem, result: Any) -> None:
        if _is_on(_memory):
            allocator = self._executor.params.device.device_type.lower()
            for index, output in enumerate(describe_outputs(result, item.num_outputs)):
                name, step_id = item.node.name, self.args.step_id
                _memory.debug("%s", output_record(step_id, name, index, output, allocator))


def _is_on(logger: logging.Logger) -> bool:
    return 0 < logger.level <= logging.DEBUG


def summary(node: Node) -> str:
    """Return a node on one line, as in TensorFlow: `{{node z}} = Add[T=float32](x, y)`."""
    attrs = ", ".join(
        f"{name}={_text(value)}"
        for name, value in sorted(node.attrs.items())
        if not name.startswith("_")
    )
    inputs = [edge.tensor_name for edge in node.in_edges]
    inputs += [f"^{source.name}" for source in node.control_inputs]
    return f"{{{{node {node.name}}}}} = {node.op}[{attrs}]({', '.join(inputs)})"


def _text(value: Any) -> str:
    text = value.name if isinstance(value, DType) else str(value)
    return text if len(text) <= _MAX_ATTR else f"{text[: _MAX_ATTR - 3]}..."
