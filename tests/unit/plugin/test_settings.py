"""The settings of one plugin in a session's configuration."""

from __future__ import annotations

import pytest

from graphmill import errors, proto
from graphmill.plugin.settings import plugin_settings


def config(**values: object):
    made = proto.ConfigProto()
    entry = made.graph_options.rewrite_options.custom_optimizers.add(name="mine")
    for key, value in values.items():
        kind = {int: "i", float: "f", bool: "b", bytes: "s"}[type(value)]
        setattr(entry.parameter_map[key], kind, value)
    return made


def test_settings_are_python_values() -> None:
    message = config(size=7, share=0.5, strict=True, path=b"a/b")
    assert plugin_settings(message, "mine") == {
        "size": 7,
        "share": 0.5,
        "strict": True,
        "path": "a/b",
    }


def test_settings_of_others_do_not_count() -> None:
    assert plugin_settings(config(size=7), "other") == {}
    assert plugin_settings(None, "mine") == {}


def test_a_setting_of_another_kind_is_refused() -> None:
    message = proto.ConfigProto()
    entry = message.graph_options.rewrite_options.custom_optimizers.add(name="mine")
    entry.parameter_map["shape"].shape.dim.add(size=3)
    with pytest.raises(
        errors.InvalidArgumentError, match="'shape' of plugin mine must be a number"
    ):
        plugin_settings(message, "mine")
