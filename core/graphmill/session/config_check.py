"""Reject settings that would change results, but that graphmill does not support.

docs/reference/config-fields.md describes the effect of every other field.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidArgumentError, NotFoundError, UnimplementedError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.errors import OpError
    from graphmill.plugin.host import Host
    from graphmill.proto.config_pb2 import ConfigProto

REFUSED: Final[dict[str, tuple[type[OpError], str]]] = {
    "experimental.use_tfrt": (
        NotFoundError,
        "there is no TFRT session; leave it out to get an ordinary one",
    ),
    "experimental.collective_nccl": (
        UnimplementedError,
        "collectives run in graphmill's own executors, not in NCCL; leave it out",
    ),
    "gpu_options.experimental.virtual_devices": (
        UnimplementedError,
        "a GPU is one device; leave it out, and place the nodes on existing devices",
    ),
    "gpu_options.experimental.num_virtual_devices_per_gpu": (
        UnimplementedError,
        "a GPU is one device; leave it out, and place the nodes on existing devices",
    ),
}
"""The fields that are refused if set, each with the error class and the reason."""

OPTIMIZERS: Final = frozenset(
    {
        *("arithmetic", "auto_mixed_precision", "auto_mixed_precision_cpu"),
        *("auto_mixed_precision_mkl", "auto_mixed_precision_onednn_bfloat16", "auto_parallel"),
        *("autoparallel", "common_subgraph_elimination", "constfold", "debug_stripper"),
        *("dependency", "function", "implementation_selector", "layout", "loop", "memory"),
        *("pin_to_host", "pruning", "remap", "scoped_allocator", "shape", "tfg_optimizer"),
    }
)
"""The names that TensorFlow knows in `rewrite_options.optimizers`."""


def check_config(config: ConfigProto, host: Host) -> None:
    """Check the settings of a session that is about to be created.

    A `UserWarning` reports `custom_optimizers` for a plugin that the host does not have.

    Raises:
        NotFoundError, UnimplementedError: a field is refused, see `REFUSED`.
        InvalidArgumentError: `rewrite_options.optimizers` names an unknown optimizer.
    """
    for path in _set_fields(config, ""):
        if path in REFUSED:
            kind, reason = REFUSED[path]
            raise kind(f"config.{path} is not supported: {reason}")
    for name in config.graph_options.rewrite_options.optimizers:
        if name not in OPTIMIZERS:
            raise InvalidArgumentError(
                f"config.graph_options.rewrite_options.optimizers names the unknown optimizer "
                f"{name!r}{suggest(name, OPTIMIZERS)}. Known: {', '.join(sorted(OPTIMIZERS))}"
            )
    if config.graph_options.rewrite_options.custom_optimizers:
        _warn_of_settings_without_plugin(config, host)


def _warn_of_settings_without_plugin(config: ConfigProto, host: Host) -> None:
    """Warn of each entry whose name is neither that of a plugin nor of a registration of one."""
    known: set[str] = set()
    for plugin in host.plugins:
        known.update((plugin.name, plugin.name.rpartition(".")[2]))
        known.update(*plugin.registered.values())
    for entry in config.graph_options.rewrite_options.custom_optimizers:
        if entry.name not in known:
            warnings.warn(
                f"config.graph_options.rewrite_options.custom_optimizers has settings for "
                f"{entry.name!r}, which have no effect: no plugin has this name"
                f"{suggest(entry.name, known)}. `graphmill plugins` lists the plugins",
                stacklevel=4,
            )


def _set_fields(message: Any, prefix: str) -> Iterator[str]:
    """Yield the paths of the fields whose values differ from the defaults."""
    for field, value in message.ListFields():
        path = f"{prefix}{field.name}"
        yield path
        if field.message_type is not None and hasattr(value, "ListFields"):
            yield from _set_fields(value, f"{path}.")
