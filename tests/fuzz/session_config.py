"""The config of the sessions in which fuzz targets run graphs."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format

from graphmill import proto


def session_config(timeout_ms: int, memory_budget: int, **options: Any) -> proto.ConfigProto:
    """Return the config of a session that compiles nothing.

    It is a message, and without accelerators, because each input creates a session: converting a
    dict and looking for a GPU would take a third of that time.

    Args:
        timeout_ms: the time limit of a step.
        memory_budget: the number of bytes that an allocation may have.
        options: further options of `graphmill`.
    """
    own = {"jit": "off", "memory_budget_bytes": memory_budget, **options}
    fields = {"operation_timeout_in_ms": timeout_ms, "graphmill": own}
    config = json_format.ParseDict(fields, proto.ConfigProto(), ignore_unknown_fields=False)
    config.device_count["GPU"] = config.device_count["TPU"] = 0
    return config
