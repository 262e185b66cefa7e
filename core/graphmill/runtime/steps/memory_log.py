"""Records of the memory of a step's tensors, for the log `graphmill.memory`.

Semantics: `tensorflow/core/framework/log_memory.cc`. Array libraries do not report what they
allocate, so there are records of steps and outputs only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf import text_format

from graphmill.proto import log_memory_pb2
from graphmill.runtime.steps.step_stats import write_output

if TYPE_CHECKING:
    from graphmill.runtime.steps.step_stats import OutputStats

_PREFIX: Final = "__LOG_MEMORY__"


def step_record(step_id: int, handle: str) -> str:
    """Return the memory record of the beginning of a step.

    Args:
        step_id: id of the step.
        handle: name of its session.
    """
    return _text(log_memory_pb2.MemoryLogStep(step_id=step_id, handle=handle))


def output_record(
    step_id: int, kernel_name: str, index: int, output: OutputStats, allocator: str
) -> str:
    """Return the memory record of an output of a kernel.

    Args:
        step_id: id of the step.
        kernel_name: name of the node.
        index: which output it is.
        output: the output.
        allocator: what allocated it, such as `"cpu"`.
    """
    message = log_memory_pb2.MemoryLogTensorOutput(
        step_id=step_id, kernel_name=kernel_name, index=index
    )
    write_output(output, message.tensor)
    allocation = message.tensor.allocation_description
    allocation.requested_bytes = allocation.allocated_bytes = output.num_bytes
    allocation.allocator_name = allocator
    return _text(message)


def _text(message: Any) -> str:
    content = text_format.MessageToString(message, as_one_line=True)
    return f"{_PREFIX} {message.DESCRIPTOR.name} {{ {content} }}"
