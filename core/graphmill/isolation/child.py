"""Entry point of the process of an isolated model: it restricts itself, then serves the model.

Until it is restricted it imports nothing that starts threads or could be reached by a model.
"""

from __future__ import annotations

import json
import traceback
from typing import Any

from graphmill.errors import CancelledError, OpError, UnavailableError, UnimplementedError
from graphmill.isolation import packets
from graphmill.isolation.error_packets import encode_error
from graphmill.isolation.limits import LANDLOCK, SECCOMP, IsolationLimits
from graphmill.isolation.packets import Packet, read_packet, write_packet
from graphmill.runtime.process.sandbox.file_access import FileAccess, restrict_files
from graphmill.runtime.process.sandbox.parent_link import die_with_parent
from graphmill.runtime.process.sandbox.resource_limits import limit_own_resources
from graphmill.runtime.process.sandbox.step_interrupts import StepInterrupts
from graphmill.runtime.process.sandbox.system_calls import restrict_system_calls, seccomp_library


def main(requests: int, replies: int, lifeline: int, area: int) -> None:
    """Serve the requests of the parent until it closes its end of the pipe.

    Args:
        requests, replies: pipes from and to the parent.
        lifeline: a pipe that the parent holds open while it lives.
        area: the shared memory for large tensors.
    """
    interrupts = StepInterrupts()
    interrupts.install()
    die_with_parent(lifeline)
    setup = json.loads(read_packet(requests, packets.MAX_REQUEST_BYTES).payload)
    limits = IsolationLimits(**{**setup["limits"], "require": tuple(setup["limits"]["require"])})
    try:
        _restrict(limits, setup["access"])
    except MemoryError:
        reason = "the process of the isolated model ran out of memory while it started"
        advice = "raise IsolationLimits.memory_bytes"
        write_packet(replies, encode_error(UnavailableError(f"{reason}; {advice}")))
        return
    except Exception as error:  # noqa: BLE001 - the parent reports whatever it is
        reason = f"the model cannot be isolated: {type(error).__name__}: {error}"
        write_packet(replies, encode_error(UnimplementedError(reason)))
        return
    from graphmill.isolation.model_server import ModelServer

    server = ModelServer(area, limits)
    write_packet(replies, Packet(packets.READY))
    while True:
        try:
            request = read_packet(requests, packets.MAX_REQUEST_BYTES)
        except packets.EndOfStreamError:
            server.close()
            return
        write_packet(replies, _answer(server, request, interrupts))


def _restrict(limits: IsolationLimits, access: dict[str, Any]) -> None:
    """Apply the limits and protections; seccomp last, as it denies setting limits."""
    if SECCOMP in limits.require:
        seccomp_library()  # it searches for libseccomp with programs and temporary files
    limit_own_resources(limits.memory_bytes, limits.file_bytes, limits.open_files, limits.threads)
    if LANDLOCK in limits.require:
        restrict_files(FileAccess(**{name: tuple(paths) for name, paths in access.items()}))
    if SECCOMP in limits.require:
        restrict_system_calls()


def _answer(server: Any, request: Packet, interrupts: StepInterrupts) -> Packet:
    try:
        with interrupts.step():
            return server.answer(request)  # type: ignore[no-any-return]
    except KeyboardInterrupt:
        return encode_error(CancelledError("the step was interrupted"))
    except (OpError, MemoryError) as error:
        return encode_error(error)
    except Exception as error:  # noqa: BLE001 - the parent reports it as an InternalError
        traceback.print_exc()
        return encode_error(error)
