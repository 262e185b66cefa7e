"""Running the registered graph passes of a phase (row P4)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InternalError, OpError

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph
    from graphmill.plugin.host import Host
    from graphmill.runtime.device_mgr import DeviceMgr

DISABLE_VARIABLE: Final = "GRAPHMILL_DISABLE_PASSES"
"""Environment variable: names of passes that are not to run, separated by commas."""


@dataclass(frozen=True, slots=True)
class PassOptions:
    """What a pass is given besides the graph.

    Attributes:
        config: the session's `ConfigProto`.
        devices: the session's devices.
        host: the host, with its ops and kernels.
    """

    config: Any
    devices: DeviceMgr
    host: Host


def run_passes(phase: str, graph: Graph, options: PassOptions) -> None:
    """Run the passes of a phase, each changing `graph` in place.

    Raises:
        OpError: a pass raised it.
        InternalError: a pass raised anything else; names pass and plugin.
    """
    disabled = os.environ.get(DISABLE_VARIABLE, "").split(",")
    for name, graph_pass in options.host.passes.in_phase(phase):
        if name in disabled:
            continue
        owner = options.host.passes.provenance(name)
        try:
            graph_pass(graph, options)
        except OpError as error:
            error.locate(plugin=owner.plugin)
            raise
        except Exception as error:
            raise InternalError(
                f"the graph pass {name!r} of {owner} failed in phase {phase}: "
                f"{type(error).__name__}: {error}. Disable the plugin to run without it",
                plugin=owner.plugin,
            ) from error
