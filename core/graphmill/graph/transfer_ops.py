"""The ops that partitioning adds to carry tensors between partitions."""

from __future__ import annotations

from typing import Final

SEND_OPS: Final = frozenset({"_Send", "_HostSend", "Send"})
RECV_OPS: Final = frozenset({"_Recv", "_HostRecv", "Recv"})
TRANSFER_OPS: Final = SEND_OPS | RECV_OPS

NEVER_DEAD_ATTR: Final = "_never_dead"
"""On a receive: there is no control flow in the whole graph, so that nothing dead ever comes."""
