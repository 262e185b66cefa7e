"""The kernel of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.spi import errors, kernel
from graphmill_torch import CLUSTER_OP

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill_torch.cluster_op import ProgramAttr


@kernel(CLUSTER_OP, backend="torch", make=True)
def cluster(xp: Any, f: ProgramAttr) -> Callable[[list[Any]], Any]:
    """Run a cluster's program.

    Raises:
        InvalidArgumentError: the op comes from a saved graph, so it has no program.
    """
    del xp
    program = getattr(f, "program", None)
    if program is None:
        raise errors.InvalidArgumentError(
            f"{CLUSTER_OP} exists only inside a session; a graph that contains it cannot be loaded"
        )
    return lambda inputs: program(*inputs)
