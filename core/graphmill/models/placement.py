"""Apply the options for device type, executor and access rules."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.plugin.host import Host
    from graphmill.proto.config_pb2 import ConfigProto


def session_placement(
    host: Host,
    device: str | None,
    executor: str | None,
    forbidden: Iterable[str] = (),
    allow: Iterable[str] = (),
    *,
    trust: bool = False,
) -> tuple[Host, ConfigProto]:
    """Return the host and the configuration of a session.

    Args:
        host: the host of the session.
        device: a device type that placement treats as having the highest priority; nodes that it
            has no kernel for go elsewhere. None for normal placement.
        executor: the executor type; None for the default one.
        forbidden: effects that no kernel may have.
        allow: the rules of what the model may do.
        trust: whether it may do everything.

    Raises:
        InvalidArgumentError: a rule is invalid, or contradicts `trust`.
        NotFoundError: no such device type or executor is registered.
    """
    effects = list(forbidden)
    from graphmill.access.policy_config import with_access
    from graphmill.proto import ConfigProto

    # A model may come from a machine with other devices, for nodes that its signatures do not need.
    config = ConfigProto()
    config.graph_options.place_pruned_graph = True
    config = with_access(config, list(allow) or None, trust or None, is_loaded=True)
    if device is None and executor is None and not effects:
        return host, config
    config.allow_soft_placement = True
    config.graphmill.forbid_effects.extend(effects)
    if executor is not None:
        host.executors.get(executor)
        config.experimental.executor_type = executor
    if device is not None:
        copied = copy.copy(host)
        copied.devices = host.devices.preferring(device)
        config.device_count[device] = 1
        host = copied
    return host, config
