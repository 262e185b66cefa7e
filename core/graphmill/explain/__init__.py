"""Explain a step: the device, kernel and tier of each node, with the reasons.

    from graphmill.explain import explain

    with graphmill.Session(graph="model.pb") as session:
        records = explain(session, fetches=["y:0"], feeds=["x:0"])
    print(records[1].op, records[1].device)  # Mul /job:localhost/replica:0/task:0/device:CPU:0

`Session.explain` returns the complete record of one signature (`StepRecord`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.explain.compilation import (
    CallCounts,
    ClusterRecord,
    Compilation,
    CompileRecord,
    SignatureRecord,
)

if TYPE_CHECKING:
    from graphmill.explain.step import NodeRecord, StepRecord, explain, explain_all

__all__ = [
    "CallCounts",
    "ClusterRecord",
    "Compilation",
    "CompileRecord",
    "NodeRecord",
    "SignatureRecord",
    "StepRecord",
    "explain",
    "explain_all",
]


def __getattr__(name: str) -> object:
    # Functions that inspect sessions import them; plugins that only write records must not.
    if name in ("NodeRecord", "StepRecord", "explain", "explain_all"):
        from graphmill.explain import step

        return getattr(step, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
