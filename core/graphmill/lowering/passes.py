"""Run the registered graph passes of a phase (clause P4)."""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Final

from graphmill.errors import FailedPreconditionError, InternalError, OpError
from graphmill.lowering.plugin_faults import PluginFaultError
from graphmill.lowering.policies.effects_policy import EffectsPolicy
from graphmill.plugin.settings import plugin_settings
from graphmill.runtime.checks.validation import is_validation_on
from graphmill.runtime.rendezvous import IntraProcessRendezvous, Rendezvous

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.graph import Graph
    from graphmill.lowering.functions.function_runtime import FunctionLibraryRuntime
    from graphmill.lowering.verify import PassVerifier
    from graphmill.plugin.host import Host
    from graphmill.plugin.settings import SettingValue
    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.devices.device_mgr import DeviceMgr
    from graphmill.runtime.executor import ExecutorFactory

DISABLE_VARIABLE: Final = "GRAPHMILL_DISABLE_PASSES"
"""Environment variable: names of passes to disable, separated by commas."""

_BEFORE_PLACEMENT: Final = "PRE_PLACEMENT"


class PassOptions:
    """The argument of a pass besides the graph.

    Attributes:
        config: the session's `ConfigProto`.
        devices: the session's devices.
        host: the host, with its ops and kernels.
        forbidden: names of passes that the executor of the session forbids.
        effects: the policy for effects of kernels.
        new_rendezvous: creates the rendezvous of a step on several devices from the step id.
        functions: returns the function library runtime of a device; None if there is no session.
        session_handle: the key under which devices hold the session's kernels.
    """

    __slots__ = (
        *("config", "devices", "host", "forbidden", "effects"),
        *("new_rendezvous", "functions", "session_handle"),
    )

    def __init__(
        self,
        config: ConfigProto,
        devices: DeviceMgr,
        host: Host,
        forbidden: frozenset[str] = frozenset(),
        effects: EffectsPolicy | None = None,
        new_rendezvous: Callable[[int], Rendezvous] | None = None,
        functions: Callable[[Device], FunctionLibraryRuntime] | None = None,
        session_handle: str = "",
    ) -> None:
        self.config = config
        self.devices = devices
        self.host = host
        self.forbidden = forbidden
        self.effects = effects or EffectsPolicy()
        self.new_rendezvous = new_rendezvous or (lambda _: IntraProcessRendezvous())
        self.functions = functions
        self.session_handle = session_handle

    def with_forbidden(self, names: frozenset[str]) -> PassOptions:
        """Return a copy for an executor that forbids other passes."""
        copied = copy.copy(self)
        copied.forbidden = names
        return copied

    def settings(self, plugin: str) -> dict[str, SettingValue]:
        """Return the settings for one plugin in the session's configuration; may be empty.

        Args:
            plugin: the name of the entry in `graph_options.rewrite_options.custom_optimizers`.

        Raises:
            InvalidArgumentError: a setting is not a number, a bool or a string.
        """
        return plugin_settings(self.config, plugin)


def check_needed(factory: ExecutorFactory, executor_type: str, host: Host) -> None:
    """Check that the passes that an executor needs are registered and not disabled.

    Raises:
        FailedPreconditionError: one is not; the message names the executor type and the pass.
    """
    for name in factory.needs_passes:
        is_off = is_switched_off(name)
        if name not in host.passes or is_off:
            raise FailedPreconditionError(
                f"executor_type {executor_type!r} needs the graph pass {name!r}, which is "
                f"{'switched off' if is_off else 'not registered'}; passes: "
                f"{', '.join(host.passes.keys()) or 'none'}"
            )


def is_switched_off(name: str) -> bool:
    """Return whether `GRAPHMILL_DISABLE_PASSES` names this pass (or a compiler's analysis)."""
    return _is_named(name, os.environ.get(DISABLE_VARIABLE, ""))


def _is_named(name: str, names: str | frozenset[str]) -> bool:
    """Return whether `names` contains a pass, by its current or its old name."""
    if not names:
        return False
    from graphmill.deprecations import names_pass

    return names_pass(names.split(",") if isinstance(names, str) else names, name)


def run_passes(phase: str, graph: Graph, options: PassOptions) -> None:
    """Run the passes of a phase, which change `graph` in place.

    From `POST_PLACEMENT` on, nodes whose kernel overrides their op's have lost their roles
    (`policies/overriding_kernels.py`).

    With `GRAPHMILL_VALIDATE=1` the graph is checked before and after each pass
    (`lowering/verify.py`).

    Raises:
        OpError: a pass raised it.
        PluginFaultError: a pass raised another exception; the message names pass and plugin.
        InternalError: a pass left an inconsistent graph, or a node without a device in a graph on
            several devices; the message names pass and plugin.
    """
    validates = is_validation_on()
    passes = options.host.passes
    if phase != _BEFORE_PLACEMENT and options.host.kernels.has_several_suppliers:
        # Imported here: sessions without kernels of other suppliers do not need it.
        from graphmill.lowering.policies.overriding_kernels import withdraw_roles

        withdraw_roles(graph, options)
    for name, schedule in passes.scheduled_in(phase):
        if is_switched_off(name) or _is_named(name, options.forbidden):
            continue
        owner = passes.provenance(name)
        description = f"{name!r} of {owner} ({phase})"
        verifier = _verifier(graph, description) if validates else None
        first_new = graph.num_node_ids
        try:
            if schedule.applies is not None and not schedule.applies(graph, options):
                continue
            passes.get(name)(graph, options)
            if verifier is not None:
                verifier.check()
            if graph.num_node_ids > first_new:
                _check_placed(graph, first_new, description)
        except OpError as error:
            error.locate(plugin=owner.plugin)
            raise
        except Exception as error:
            raise PluginFaultError(
                f"the graph pass {name!r} of {owner} failed in phase {phase}: "
                f"{type(error).__name__}: {error}. Disable the plugin to run without it",
                plugin=owner.plugin,
            ) from error


def _check_placed(graph: Graph, first_new: int, description: str) -> None:
    """Check that the nodes which a pass added have a device, if the graph is on several devices.

    Raises:
        InternalError: one has none, so it would belong to no partition.
    """
    if len({node.assigned_device for node in graph.nodes} - {""}) < 2:
        return
    for node in graph.nodes:
        if node.id >= first_new and not node.assigned_device:
            raise InternalError(
                f"the graph pass {description} added this node without a device to a placed graph; "
                "set its assigned_device to that of the node that it replaces",
                node=node.name,
                op_type=node.op,
            )


def _verifier(graph: Graph, description: str) -> PassVerifier:
    # Imported here: sessions without GRAPHMILL_VALIDATE do not need it.
    from graphmill.lowering.verify import PassVerifier

    return PassVerifier(graph, description)
