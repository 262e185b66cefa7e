"""`Transport`: carries values between the devices of a session (clause R1).

Each step that runs on several devices, and each call of a function whose nodes are on several, has
a rendezvous that connects the senders and receivers of its partitions. The transport that the
session's configuration names (`graphmill.transport`) creates it; by default values stay in this
process.

Semantics: RendezvousMgr of tensorflow/core/framework/rendezvous.h and
tensorflow/core/distributed_runtime/rendezvous_mgr_interface.h.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from graphmill.errors import InternalError, OpError
from graphmill.runtime.process.event_log import DEBUG, is_logged
from graphmill.runtime.rendezvous import IntraProcessRendezvous, Rendezvous

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.registry import Registry


class Transport(ABC):
    """Creates the rendezvous of steps; one instance serves all sessions of a host that select it.

    Threads: several threads may call it concurrently.
    """

    @abstractmethod
    def new_rendezvous(self, step_id: int) -> Rendezvous:
        """Return a new rendezvous for a step, or for a function call in it.

        Args:
            step_id: id of the step.
        """


def rendezvous_maker(
    transports: Registry[Transport], config: ConfigProto
) -> Callable[[int], Rendezvous]:
    """Return the function that creates the rendezvous of a session's steps from their ids.

    Raises:
        NotFoundError: no transport is registered under the name in the config.
    """
    name: str = config.graphmill.transport
    if not name:
        return _in_this_process
    transport, owner = transports.get(name), transports.provenance(name)

    def make(step_id: int) -> Rendezvous:
        try:
            rendezvous = transport.new_rendezvous(step_id)
            if not isinstance(rendezvous, Rendezvous):
                raise TypeError(f"it created {rendezvous!r}, which is not a Rendezvous")
            rendezvous.owner = owner
        except OpError as error:
            error.locate(plugin=owner.plugin)
            raise
        except Exception as error:
            raise InternalError(
                f"the transport {name!r} of {owner} failed: {type(error).__name__}: {error}",
                plugin=owner.plugin,
            ) from error
        return _logged(rendezvous, step_id)

    return make


def _in_this_process(step_id: int) -> Rendezvous:
    return _logged(IntraProcessRendezvous(), step_id)


def _logged(rendezvous: Rendezvous, step_id: int) -> Rendezvous:
    """Return a rendezvous that logs each value, if logging is on when the step begins."""
    if not is_logged("rendezvous", DEBUG):
        return rendezvous
    from graphmill.runtime.logged_rendezvous import LoggedRendezvous  # off by default

    return LoggedRendezvous(rendezvous, step_id)
