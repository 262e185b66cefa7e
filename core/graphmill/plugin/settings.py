"""Read the settings for a plugin from a session's configuration.

`ConfigProto` has no field for third-party plugins, but it has a list of named parameter maps, which
TensorFlow's own plugins use too: `graph_options.rewrite_options.custom_optimizers`. A plugin reads
the entry with its name:

    config.graph_options.rewrite_options.custom_optimizers.add(name="memory_budget")
        .parameter_map["bytes"].i = 1 << 30
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from graphmill.proto.attr_value_pb2 import AttrValue
    from graphmill.proto.config_pb2 import ConfigProto

SettingValue: TypeAlias = Any
"""The value of a setting: `int`, `float`, `bool` or `str`; the plugin checks the type."""

_KINDS = {"i": int, "f": float, "b": bool, "s": bytes}


def plugin_settings(config: ConfigProto | None, name: str) -> dict[str, SettingValue]:
    """Return the settings of a plugin in a session's configuration; empty if there are none.

    Args:
        config: a `ConfigProto`, or None.
        name: the plugin's name.

    Raises:
        InvalidArgumentError: a setting is not a number, a bool or a string.
    """
    if config is None:
        return {}
    settings: dict[str, SettingValue] = {}
    for entry in config.graph_options.rewrite_options.custom_optimizers:
        if entry.name == name:
            settings.update((key, _value(name, key, v)) for key, v in entry.parameter_map.items())
    return settings


def _value(plugin: str, key: str, value: AttrValue) -> SettingValue:
    kind = value.WhichOneof("value")
    if kind not in _KINDS:
        raise InvalidArgumentError(
            f"the setting {key!r} of plugin {plugin} must be a number, a bool or a string, not "
            f"{kind or 'empty'}",
            plugin=plugin,
        )
    setting = getattr(value, kind)
    return setting.decode("utf-8") if isinstance(setting, bytes) else setting
