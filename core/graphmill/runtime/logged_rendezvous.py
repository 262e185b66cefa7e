"""`LoggedRendezvous`: a rendezvous that logs what is sent and received (`graphmill.rendezvous`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.runtime.process.event_log import DEBUG, log_event
from graphmill.runtime.rendezvous import Rendezvous
from graphmill.runtime.value_shape import num_bytes_of_value

if TYPE_CHECKING:
    from graphmill.errors import OpError
    from graphmill.runtime.rendezvous import ReceiveDone, TransferArgs
    from graphmill.typing import Value


class LoggedRendezvous(Rendezvous):
    """Logs the calls of another rendezvous.

    Args:
        rendezvous: the rendezvous.
        step_id: id of its step.
    """

    def __init__(self, rendezvous: Rendezvous, step_id: int) -> None:
        self._rendezvous = rendezvous
        self._step_id = step_id

    def send(self, key: str, args: TransferArgs, value: Value, is_dead: bool = False) -> None:
        """Send a value; see `Rendezvous.send`."""
        self._log_value("sent", key, value, is_dead)
        self._rendezvous.send(key, args, value, is_dead)

    def recv_async(self, key: str, args: TransferArgs, done: ReceiveDone) -> None:
        """Receive a value; see `Rendezvous.recv_async`."""

        def logged(value: Value, is_dead: bool, error: BaseException | None) -> None:
            if error is None:
                self._log_value("received", key, value, is_dead)
            else:
                log_event(
                    "rendezvous",
                    DEBUG,
                    "receive failed",
                    step=self._step_id,
                    key=key,
                    error=str(error),
                )
            done(value, is_dead, error)

        log_event("rendezvous", DEBUG, "receive started", step=self._step_id, key=key)
        self._rendezvous.recv_async(key, args, logged)

    def start_abort(self, error: OpError) -> None:
        """Fail all calls; see `Rendezvous.start_abort`."""
        log_event("rendezvous", DEBUG, "aborted", step=self._step_id, error=str(error))
        self._rendezvous.start_abort(error)

    def awaited_keys(self) -> list[str] | None:
        """Return the keys that are waited for; see `Rendezvous.awaited_keys`."""
        return self._rendezvous.awaited_keys()

    def _log_value(self, event: str, key: str, value: Value, is_dead: bool) -> None:
        size = 0 if is_dead else num_bytes_of_value(value)
        log_event("rendezvous", DEBUG, event, step=self._step_id, key=key, dead=is_dead, bytes=size)
